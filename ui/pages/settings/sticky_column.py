"""Column next to the settings that stays visible while they are scrolled."""

import tkinter as tk

from ui.widgets.scroller import Scroller
from ui.widgets.widgets import Widgets

_GAP = 14
# Top margin while the page is scrolled.
_MIN_ABOVE = 20


class StickyColumn:
    """Cards over a scrolling page, above a placeholder in the page.

    `top` holds the first card, which is always visible. `frame` holds the others, placed from grid
    row 1 on: they scroll with the page until the last one is visible, so not at all if all of them
    fit. What does not fit passes below the first card. Below the settings of a narrow page, the
    others scroll with the page, without the first.
    """

    def __init__(self, widgets: Widgets, page: Scroller, *, name: str) -> None:
        self._widgets = widgets
        self._page = page
        # Placeholder in the page, as large as the cards above it.
        self.space = widgets.frame(page.inner, ground="window")
        self.frame = widgets.frame(page.canvas, ground="window")
        # As wide as the other cards and opaque, so that they pass unseen below the first.
        self._cover = widgets.frame(page.canvas, ground="window")
        self.top = widgets.frame(self._cover, ground="window")
        above = widgets.px(_MIN_ABOVE)
        self.top.pack(fill="x", pady=(above, widgets.px(_GAP)))
        self._room = widgets.frame(self.frame, ground="window")
        self._room.grid(row=0, column=0)
        widgets.name(self.frame, name)
        self._width = 0
        self._placed: tuple[int, ...] = ()
        self._stays = True
        page.on_view.append(self._place)
        for widget in (self.space, self.frame, self._cover):
            widget.bind("<Configure>", self._place)

    def arrange(self, width: int, *, stays: bool) -> None:
        """Set the width in pixels, and whether the column is sticky."""
        self._width = width
        self._stays = stays
        self.frame.grid_columnconfigure(0, minsize=width)
        self._place()

    def _place(self, _: "tk.Event[tk.Misc] | None" = None) -> None:
        """Place the cards over the placeholder, or close to it where that is out of sight."""
        canvas, above = self._page.canvas, self._widgets.px(_MIN_ABOVE)
        height = self.frame.winfo_reqheight()
        first = self._cover.winfo_reqheight() if self._stays else above
        self._room.configure(height=max(1, first - above))  # 0 would leave it as high as it was
        self.space.configure(width=self._width, height=height)
        left, top = self.space.winfo_x(), self.space.winfo_y() - round(canvas.canvasy(0))
        top_of_first = top - above
        if self._stays:
            top = max(top, min(above, canvas.winfo_height() - height))
            # A card taller than the window must scroll to be readable.
            is_in_sight = first <= canvas.winfo_height()
            top_of_first = max(0, top_of_first) if is_in_sight else top - above
        placed = (left, top, top_of_first, self._width, self._stays)
        if placed != self._placed:
            self._placed = placed
            self.frame.place(x=left, y=top, width=self._width)
            if self._stays:
                self._cover.place(x=left, y=top_of_first, width=self._width)
            else:
                self._cover.place_forget()
