"""Training and evaluation of the demo's base model."""
