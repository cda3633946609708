"""Textual-inversion files, and the metadata standard that all written files follow."""
