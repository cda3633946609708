"""The list of base models, for pages and dialogs."""
