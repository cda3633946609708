"""The page that lists the keyboard shortcuts."""
