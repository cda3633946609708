"""Precision, devices and what is kept for the backward pass."""
