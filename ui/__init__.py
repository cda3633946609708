"""The window: tkinter and customtkinter, no torch."""
