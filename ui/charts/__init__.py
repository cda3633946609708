"""Charts on a canvas."""
