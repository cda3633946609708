"""The guided start: images, base model, what to make of it."""
