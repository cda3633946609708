"""Layers of a model: names, presets and rules; inference during training."""
