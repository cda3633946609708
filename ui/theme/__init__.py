"""Colors, fonts and styles."""
