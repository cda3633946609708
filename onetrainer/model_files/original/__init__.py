"""Names of a model's tensors in every kind of file, and their shapes."""
