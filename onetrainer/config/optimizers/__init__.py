"""Sections of the optimizers, grouped by library."""
