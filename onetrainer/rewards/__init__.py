"""Prompts, cost and truncated backpropagation of reward training."""
