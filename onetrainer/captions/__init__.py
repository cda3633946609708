"""Captions: files, lists, tags, choices and placeholder tokens."""
