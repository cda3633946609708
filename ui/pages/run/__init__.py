"""Page of the current run."""
