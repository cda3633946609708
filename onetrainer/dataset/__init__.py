"""The dataset of a run: items, buckets, transforms, captions, batches. No torch."""
