"""Where the navigation is: beside the page, or over it on request where there is no room beside."""

import tkinter as tk
from collections.abc import Callable

from ui.shell.nav import Nav
from ui.widgets.widgets import Widgets, focused

# Width of a window, at 96 dpi, below which its pages need all of it.
FOLDED_BELOW = 960


class Drawer:
    """Folds the navigation in small windows.

    page: what the navigation stands beside, in the same box. folded: called when that changes.
    """

    def __init__(
        self, widgets: Widgets, nav: Nav, page: tk.Widget, folded: Callable[[bool], None]
    ) -> None:
        self._widgets, self._nav, self._page, self._folded = widgets, nav, page, folded
        self.is_folded = self.is_open = False
        self._unfold()
        nav.outer.master.bind("<Configure>", self._fit)

    def end(self) -> None:
        """Follow the window's size no more: the navigation will be destroyed in pieces."""
        self._nav.outer.master.unbind("<Configure>")

    def toggle(self) -> None:
        """Show the navigation over the page, or hide it again."""
        if not self.close() and self.is_folded:
            self.is_open = True
            self._nav.outer.place(x=0, y=0, relheight=1)
            self._nav.outer.lift()
            self._nav.take_focus()

    def close(self) -> bool:
        """Hide the navigation if it is over the page; return whether it was."""
        was_open, self.is_open = self.is_open, False
        if was_open:
            outer = self._nav.outer
            if str(focused(outer)).startswith(f"{outer}."):
                outer.winfo_toplevel().focus_set()  # a hidden entry must not keep the keyboard
            outer.place_forget()
        return was_open

    def _fit(self, event: "tk.Event[tk.Misc]") -> None:
        is_narrow = event.width < self._widgets.px(FOLDED_BELOW)
        is_folded = is_narrow or event.height < self._nav.least_height
        if is_folded == self.is_folded:
            return
        self.close()
        self.is_folded = is_folded
        self._nav.spread(is_folded)
        if is_folded:
            self._nav.outer.pack_forget()
        else:
            self._unfold()
        self._folded(is_folded)

    def _unfold(self) -> None:
        self._nav.outer.pack(side="left", fill="y", before=self._page)

    def clicked(self, event: "tk.Event[tk.Misc]") -> None:
        """Hide the navigation on a click elsewhere; its own entries and its button do it too."""
        place = f"{event.widget}."
        if self.is_open and not place.startswith((f"{self._nav.outer}.", f"{self._nav.opener}.")):
            self.close()
