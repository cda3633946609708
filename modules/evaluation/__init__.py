"""Measure a model on what it does not train on: validation loss and held-out prompts."""
