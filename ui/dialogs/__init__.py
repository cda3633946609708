"""Dialogs and menus of the window."""
