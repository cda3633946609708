"""What each model family is, as data that both wings read."""
