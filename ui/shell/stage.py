"""Place of the pages: one at a time, and the next over it once it is drawn."""

import tkinter as tk
from collections.abc import Callable

from ui.widgets.widgets import Widgets


class Stage:
    """Shows one of its children; place `outer`, and create pages in it."""

    def __init__(self, widgets: Widgets, parent: tk.Misc) -> None:
        self.outer = widgets.frame(parent, ground="window")
        self.outer.grid_rowconfigure(0, weight=1)
        self.outer.grid_columnconfigure(0, weight=1)
        self._shown: tk.Widget | None = None

    def show(self, page: tk.Widget, draw: Callable[[], object]) -> None:
        """Show a page over the one before, which leaves when this one is laid out.

        draw: Fills the page with what it shows.
        """
        before, self._shown = self._shown, page
        page.grid(row=0, column=0, sticky="nsew")
        page.lift()
        try:
            draw()
            if before is not None:
                page.update_idletasks()
        finally:
            if before is not None and before is not page:
                before.grid_forget()
