"""Find, load, merge, compare and save configs and presets."""
