"""The page of the queue."""
