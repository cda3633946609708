"""Sample images from a model, for people and for rewards."""
