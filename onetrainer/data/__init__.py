"""The pictures of a run: folders, items, sizes, views, and what every step takes. No torch."""
