"""Checks that read files: what is wrong with a run before it starts, and with images."""
