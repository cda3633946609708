"""Changes of a person's files, captions and masks, each with a way back."""
