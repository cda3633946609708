"""Pages of the window; `registry.py` lists them."""
