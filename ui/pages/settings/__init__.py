"""The pages of settings, with help and summary beside them."""
