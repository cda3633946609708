"""Rules between settings: combinations that make no sense are refused in words."""
