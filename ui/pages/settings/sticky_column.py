"""The column beside the settings, which stays in sight while these are scrolled."""

import tkinter as tk

from ui.widgets.scroller import Scroller
from ui.widgets.widgets import Kit

_GAP = 14
# What is left of the page's upper margin when the page has been scrolled.
_MIN_ABOVE = 20


class StickyColumn:
    """Cards over a page that scrolls, in a place that the page leaves for them.

    top: the box of the first card, which always stays in sight. frame: that of the others, gridded
    from its second row on: they follow the page until the last of them can be seen, which is not
    at all where there is room for all of them. What does not fit passes below the first card.
    stays: false where they stand below the settings, and are scrolled like these.
    """

    def __init__(self, kit: Kit, page: Scroller, *, name: str) -> None:
        self._kit = kit
        self._page = page
        # In the page, as large as what lies over it.
        self.space = kit.frame(page.inner, ground="window")
        self.frame = kit.frame(page.canvas, ground="window")
        # As wide as the others, and with the page's ground, so that these do not show beside it.
        self._cover = kit.frame(page.canvas, ground="window")
        self.top = kit.frame(self._cover, ground="window")
        above = kit.px(_MIN_ABOVE)
        self.top.pack(fill="x", pady=(above, kit.px(_GAP)))
        self._room = kit.frame(self.frame, ground="window")
        self._room.grid(row=0, column=0)
        kit.name(self.frame, name)
        self._width = 0
        self._placed: tuple[int, ...] = ()
        self._stays = True
        page.on_view.append(self._place)
        for widget in (self.space, self.frame, self._cover):
            widget.bind("<Configure>", self._place)

    def arrange(self, width: int, *, stays: bool) -> None:
        """Takes a width in pixels."""
        self._width = width
        self._stays = stays
        self.frame.grid_columnconfigure(0, minsize=width)
        self._place()

    def _place(self, _: "tk.Event[tk.Misc] | None" = None) -> None:
        """Lays the cards over their place in the page, or where that is out of sight, near it."""
        canvas, above = self._page.canvas, self._kit.px(_MIN_ABOVE)
        first, height = self._cover.winfo_reqheight(), self.frame.winfo_reqheight()
        self._room.configure(height=first - above)
        self.space.configure(width=self._width, height=height)
        left, top = self.space.winfo_x(), self.space.winfo_y() - round(canvas.canvasy(0))
        top_of_first = top - above
        if self._stays:
            top = max(top, min(above, canvas.winfo_height() - height))
            # A card that is higher than the window is scrolled to be read.
            is_in_sight = first <= canvas.winfo_height()
            top_of_first = max(0, top_of_first) if is_in_sight else top - above
        placed = (left, top, top_of_first, self._width)
        if placed != self._placed:
            self._placed = placed
            self.frame.place(x=left, y=top, width=self._width)
            self._cover.place(x=left, y=top_of_first, width=self._width)
