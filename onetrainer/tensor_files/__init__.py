"""Headers of tensor files; no code in a file is ever executed."""
