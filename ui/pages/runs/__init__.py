"""Page of all runs."""
