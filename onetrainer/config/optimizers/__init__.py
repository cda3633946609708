"""Sections of the optimizers, grouped by the library they come from."""
