"""Forms built from the config's fields."""
