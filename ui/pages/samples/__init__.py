"""The page of sample images."""
