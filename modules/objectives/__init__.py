"""Objectives: a batch in, a loss out."""
