"""The frame around the pages: header, navigation, status line, search."""
