"""Pictures and captions in: reading, caching, batching."""
