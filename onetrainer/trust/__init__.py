"""User-defined functions, and which of them are trusted."""
