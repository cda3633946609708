"""What is written on a part of the window."""

import tkinter as tk
from tkinter import ttk


def texts_in(box: tk.Misc) -> list[str]:
    """The texts of all labels within a widget, in the order in which they were made."""
    own = [str(box.cget("text"))] if isinstance(box, ttk.Label) else []
    return own + [text for child in box.winfo_children() for text in texts_in(child)]
