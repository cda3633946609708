"""Layers of a model: names, presets and rules."""
