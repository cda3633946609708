"""The optimizers, each with its own settings and only those, by the library they come from."""
