"""Pictures out of a model."""
