"""Forms made from the config's own fields."""
