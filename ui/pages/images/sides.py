"""The grid of images and the panels: beside each other, or one below the other, or hidden."""

import tkinter as tk
from tkinter import ttk

from ui.widgets.placing import place_two
from ui.widgets.widgets import Widgets

_RIGHT, _GAP = 388, 14
_NARROW = 720
_LOW = 260, 470  # heights below each other


class Sides:
    """Places the two cards of the page in their box."""

    def __init__(
        self,
        widgets: Widgets,
        box: ttk.Frame,
        first: tk.Widget,
        second: ttk.Frame,
    ) -> None:
        self._px, self._box = widgets.px, box
        self._cards = first, second
        self._is_beside: bool | None = None
        self._instead: tk.Widget | None = None
        # Of one width: buttons that wrap would need another one each time they do.
        second.configure(width=widgets.px(_RIGHT))
        second.pack_propagate(False)

    def arrange(self, width: int) -> bool:
        """Place the cards for a width of the page; return whether they are beside each other."""
        is_beside = width >= self._px(_NARROW)
        if is_beside != self._is_beside:
            self._is_beside = is_beside
            place_two(*self._cards, is_beside=is_beside, gap=self._px(_GAP))
            for line in (0, 1):
                self._box.grid_columnconfigure(line, weight=1 - line, uniform="")
            self.replace_by(self._instead)
        return is_beside

    def replace_by(self, widget: tk.Widget | None) -> None:
        """Show a widget in place of the cards; None shows them again."""
        if self._instead is not None and widget is None:
            self._instead.grid_remove()
        self._instead = widget
        is_low = widget is None and self._is_beside is False
        for line, low in enumerate(_LOW):
            self._box.grid_rowconfigure(line, minsize=self._px(low) if is_low else 0)
        for card in self._cards:
            if widget is None:
                card.grid()
            else:
                card.grid_remove()
        if widget is not None:
            widget.grid(row=0, column=0, rowspan=2, columnspan=2, sticky="nsew")
