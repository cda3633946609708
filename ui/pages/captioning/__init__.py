"""The page that lets models describe images."""
