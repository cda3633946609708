"""Weights, gradients and optimizer state that the processes of a run share out among them."""
