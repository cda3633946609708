"""Image files: opening, headers, detail, and an index of what is known about them."""
