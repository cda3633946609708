"""Texts that the window shows, without Tk."""
