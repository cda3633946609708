"""Texts of a table that end in "…" where their column is too narrow, of which Tk cuts letters."""

from collections.abc import Mapping
from tkinter import ttk

from ui.messages.line_breaks import shorten
from ui.theme.theme import Theme

_CELL_PAD = 10


def fit_texts(tree: ttk.Treeview, theme: Theme, rows: Mapping[str, Mapping[str, str]]) -> None:
    """Write the texts of some rows, by row and column, as far as the columns are wide."""
    names = {name for texts in rows.values() for name in texts}
    rooms = {name: int(tree.column(name, "width")) - theme.px(_CELL_PAD) for name in names}
    for key, texts in rows.items():
        for name, whole in texts.items():
            text = shorten(whole, rooms[name], theme.measure)
            if str(tree.set(key, name)) != text:
                tree.set(key, name, text)
