"""Page of keyboard shortcuts."""
