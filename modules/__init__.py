"""The engine: everything that needs torch."""
