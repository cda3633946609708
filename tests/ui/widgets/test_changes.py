"""Functions that a variable calls: as long as their widget exists, and not a moment longer."""

import gc
import tkinter as tk
import weakref
from tkinter import ttk

from ui.widgets.changes import on_change


class Field:
    """An entry whose changes are counted by an object that knows it, as those of forms."""

    def __init__(self, root):
        self.text = tk.StringVar(root)
        self.entry = ttk.Entry(root, textvariable=self.text)
        self.changes = 0
        on_change(self.text, self.entry, self.count)

    def count(self):
        self.changes += 1


def test_a_field_hears_of_each_change_and_is_freed_with_its_widget(root):
    field = Field(root)
    field.entry.insert(0, "a")
    field.text.set("b")
    assert field.changes == 2
    left = weakref.ref(field)
    field.entry.destroy()
    del field
    gc.collect()
    assert left() is None
