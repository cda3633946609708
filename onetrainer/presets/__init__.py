"""Finding, loading, merging, comparing and saving configs and presets."""
