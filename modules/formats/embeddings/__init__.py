"""Textual-inversion files, and the ModelSpec metadata of all written files."""
