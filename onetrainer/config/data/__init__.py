"""Sections about images and captions."""
