"""Recognition of model files and folders from their headers."""
