"""The pages of the window, one a file."""
