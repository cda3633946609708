"""Concepts: the image folders that a config names, and the files in them."""
