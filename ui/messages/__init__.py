"""Texts of the window. No Tk."""
