"""Frame of the window: header, navigation, status line and search."""
