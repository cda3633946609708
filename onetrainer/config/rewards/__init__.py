"""Sections of reward training."""
