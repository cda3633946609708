"""The page of tools around model files."""
