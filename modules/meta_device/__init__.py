"""A simulated device: code runs on torch's meta device, and its memory is counted."""
