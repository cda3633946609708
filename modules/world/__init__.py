"""The processes of a run: what they tell each other, and how they end together."""
