"""Forms built from the config fields."""
