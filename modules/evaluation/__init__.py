"""Measurements on data that is not trained on: validation loss, scores of validation prompts."""
