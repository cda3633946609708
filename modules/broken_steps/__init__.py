"""Broken steps, whose loss or gradient is not finite: their cause, and what a run does then."""
