"""Parameter groups and the optimizer step."""
