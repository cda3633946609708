"""Scrollable page, and mouse wheel handling for the whole window."""

import tkinter as tk
from collections.abc import Callable
from functools import partial
from tkinter import ttk

from ui.theme.palette import Role
from ui.widgets.placing import show
from ui.widgets.widgets import Widgets, focused

_STEP = 60
_PAGE = 8
_FOCUS_MARGIN = 8


class Scroller:
    """Scrollable area: put the content into `inner` and place `outer`.

    `on_view` lists callbacks that run when the visible part changes.

    Args:
        fills: Make the content at least as tall as the visible area. All of it must then be in one
            widget at row 0 and column 0 of the grid of `inner`.
        least: Height of the content in pixels at 96 dpi from which on it is scrolled.
    """

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        *,
        ground: Role = "window",
        fills: bool = False,
        least: int = 0,
    ) -> None:
        self._widgets = widgets
        self._fills = fills
        self._least = widgets.px(least)
        self.on_view: list[Callable[[], None]] = []
        self.outer = widgets.frame(parent, ground=ground)
        self.canvas = tk.Canvas(self.outer, highlightthickness=0, borderwidth=0, takefocus=0)
        widgets.theme.paint(self.canvas, bg=ground)
        self.canvas.configure(yscrollincrement=1)
        self._bar = widgets.scrollbar(self.outer, self.canvas.yview, ground=ground)
        self.canvas.configure(yscrollcommand=self._bar_set)
        self.inner: ttk.Frame = widgets.frame(self.canvas, ground=ground)
        self._item = self.canvas.create_window(0, 0, window=self.inner, anchor="nw")
        self.canvas.pack(side="left", fill="both", expand=True)
        self._bar_shown = self._needs_bar = False
        self._bar_timer = ""
        for widget in (self.canvas, self.inner):
            widget.bind("<Configure>", self._fit)
        # Tk sends no <Configure> to a hidden widget, such as one below the end of a shorter page.
        self.canvas.bind("<Map>", self._fit)
        self.inner.bind("<Unmap>", self._fit)
        widgets.on_wheel[self.canvas] = self.scroll_by
        if fills:
            self.follow_keyboard()
        # A page has the keyboard itself until one of its controls takes it.
        for key, by in (("<Next>", _PAGE), ("<Prior>", -_PAGE), ("<Down>", 1), ("<Up>", -1)):
            self.outer.bind(key, partial(self._key, by))

    def scroll_by(self, steps: int) -> None:
        """Scroll down by a number of wheel notches; negative numbers scroll up."""
        self._fit()
        self._move(steps * self._widgets.px(_STEP))

    def scroll_if_needed(self, steps: int) -> bool:
        """Scroll as `scroll_by` does if there is more than is visible; return whether there is."""
        self.scroll_by(steps)
        return self.inner.winfo_reqheight() > self.canvas.winfo_height()

    def _key(self, steps: int, _: "tk.Event[tk.Misc]") -> None:
        self.scroll_by(steps)

    def follow_keyboard(self) -> None:
        """Scroll to what Tab gives the keyboard to, from now on."""
        self._widgets.on_focus[self.canvas] = self.follow

    def follow(self, widget: tk.Misc, margin: int = _FOCUS_MARGIN) -> None:
        """Scroll to a control that has got the keyboard, if it is not seen as a whole.

        margin: As for `show`.
        """
        above = widget.winfo_rooty() - self.canvas.winfo_rooty()
        below = above + widget.winfo_height() - self.canvas.winfo_height()
        if above < 0 or (below > 0 and above > 0):
            self.show(widget, margin=margin)

    def to_top(self) -> None:
        """Scroll to the top of the page."""
        self.canvas.yview_moveto(0)

    def settle(self, anchor: tk.Misc | None = None, height: int = 0) -> None:
        """Update the scrollable region after the content has changed.

        Args:
            anchor: Widget that must not move on the screen; None for none.
            height: Screen y coordinate of the anchor's top edge before the change.
        """
        self.canvas.update_idletasks()
        self._fit()
        if anchor is not None and anchor.winfo_ismapped():
            self.canvas.update_idletasks()
            self._move(anchor.winfo_rooty() - height)

    def can_see(self, widget: tk.Misc) -> bool:
        """Return whether the top edge of a widget is in the visible part of the page."""
        above = widget.winfo_rooty() - self.canvas.winfo_rooty()
        return bool(widget.winfo_viewable()) and 0 <= above < self.canvas.winfo_height()

    def show(self, widget: tk.Misc, *below: tk.Misc, margin: int = _STEP) -> None:
        """Scroll until a widget, and those below it that belong to it, are visible.

        Args:
            widget: Widget inside the page.
            below: Widgets below it, such as its error message.
            margin: Minimum distance from the edges in pixels at 96 dpi.
        """
        self.canvas.update_idletasks()
        self._fit()
        height = self.inner.winfo_reqheight()
        if height <= self.canvas.winfo_height() or not height:
            return
        top = widget.winfo_rooty() - self.inner.winfo_rooty()
        bottom = max(
            part.winfo_rooty() - self.inner.winfo_rooty() + part.winfo_height()
            for part in (widget, *below)
        )
        first = self.canvas.canvasy(0)
        margin = self._widgets.px(margin)
        if top - margin < first:
            self.canvas.yview_moveto(max(0, top - margin) / height)
        elif bottom + margin > first + self.canvas.winfo_height():
            # A widget taller than the window is shown from its top.
            first = min(bottom + margin - self.canvas.winfo_height(), top - margin)
            self.canvas.yview_moveto(first / height)

    def _move(self, pixels: int) -> None:
        if pixels and self.inner.winfo_reqheight() > self.canvas.winfo_height():
            self.canvas.yview_scroll(pixels, "units")

    def _fit(self, _: "tk.Event[tk.Misc] | None" = None) -> None:
        width, height = self.canvas.winfo_width(), self.inner.winfo_reqheight()
        room = self.canvas.winfo_height()
        if self._fills:
            # Setting the item's height instead would stop it from following its content.
            self.inner.grid_rowconfigure(0, weight=1, minsize=max(room, self._least))
            self.inner.grid_columnconfigure(0, weight=1)
        self.canvas.itemconfigure(self._item, width=width)
        self.canvas.configure(scrollregion=(0, 0, width, max(height, room)))
        # Tk keeps the scroll position, which may now be below the end.
        last = max(0, height - room)
        if self.canvas.canvasy(0) > last:
            self.canvas.yview_moveto(last / max(height, room))

    def _bar_set(self, first: float, last: float) -> None:
        # Tk passes strings despite the annotation.
        self._needs_bar = float(last) - float(first) < 0.999
        # Not now: Tk calls this while it lays out the canvas, from which the bar takes its room.
        if self._needs_bar != self._bar_shown and not self._bar_timer:
            self._bar_timer = self.canvas.after(1, self._show_bar)
        self._bar.set(float(first), float(last))
        for notify in self.on_view:
            notify()

    def _show_bar(self) -> None:
        self._bar_timer = ""
        if self._needs_bar != self._bar_shown:
            self._bar_shown = self._needs_bar
            show(self._bar, self._needs_bar, side="right", fill="y", before=self.canvas)


def bind_wheel(root: tk.Tk, widgets: Callable[[], Widgets]) -> None:
    """Bind the mouse wheel to scrolling in the whole window; it never changes a value.

    Once for a window. widgets: Returns those that it has by then.
    """
    # Otherwise the wheel would change the value of a closed combo box.
    for event in ("<MouseWheel>", "<Shift-MouseWheel>", "<Button-4>", "<Button-5>"):
        root.unbind_class("TCombobox", event)

    def scroll(event: "tk.Event[tk.Misc]") -> None:
        if isinstance(event.widget, ttk.Scrollbar):
            return  # Tk has scrolled what it belongs to
        steps = -1 if event.num == 4 or event.delta > 0 else 1
        if isinstance(event.widget, tk.Misc):
            widgets().turn_wheel(event.widget, steps)

    for sequence in ("<MouseWheel>", "<Button-4>", "<Button-5>"):
        root.bind_all(sequence, scroll)


def bind_focus(root: tk.Tk, widgets: Callable[[], Widgets]) -> None:
    """Give what is clicked the keyboard, and scroll pages to what Tab gives it to.

    Once for a window. A field is left, and what is typed in it taken, by a click beside it.
    """

    def take(event: "tk.Event[tk.Misc]") -> None:
        if isinstance(event.widget, tk.Misc) and event.widget.winfo_exists():
            event.widget.focus_set()

    def follow(_: "tk.Event[tk.Misc]") -> None:
        focus, known = focused(root), widgets().on_focus
        box = focus.master if focus is not None else None
        while box is not None and box not in known:
            box = box.master
        if focus is not None and box is not None:
            known[box](focus)

    root.bind_all("<Button-1>", take, add="+")
    # After Tk's own bindings, which move the keyboard.
    for sequence in ("<<NextWindow>>", "<<PrevWindow>>"):
        root.bind_all(sequence, follow, add="+")
