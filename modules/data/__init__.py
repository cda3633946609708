"""Load, encode, cache and batch images and captions."""
