"""Measurements on data that is not trained on: validation loss, and scores of held-out prompts."""
