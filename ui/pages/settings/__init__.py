"""Pages of settings, with help and summary cards next to them."""
