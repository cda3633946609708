"""Page of all images with their captions and masks."""
