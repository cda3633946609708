"""Precision, quantization, and which component is on which device."""
