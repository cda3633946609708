"""Page of a run's charts and log."""
