"""Models that describe images: taggers, captioners, masks."""
