"""Page of samples."""
