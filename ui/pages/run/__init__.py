"""The page of the current run."""
