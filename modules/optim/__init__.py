"""Optimizers: building, stepping, rounding, EMA, and their state in checkpoints."""
