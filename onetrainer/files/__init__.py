"""Files on disk: written whole or not at all, and locked against other processes."""
