"""Rewards that are neural networks, and their files."""
