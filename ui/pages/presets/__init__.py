"""Page of presets."""
