"""Charts drawn on a canvas."""
