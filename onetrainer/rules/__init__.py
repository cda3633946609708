"""Rules between settings: errors and warnings about combinations that do not work together."""
