"""Merging, resizing and extracting of LoRAs, as changes of a model's weights."""
