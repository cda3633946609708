"""Tooltip next to the pointer."""

import tkinter as tk
from collections.abc import Callable

from ui.messages.line_breaks import break_at_dots
from ui.theme.theme import Theme

_DELAY_MS = 500
_WIDTH = 340
_GAP = 14
# The text may depend on state that sends no notification, such as that of a run.
_UPDATE_EVERY_MS = 150


class Tooltip:
    """Tooltip of a widget, shown after a short delay and kept up to date while visible.

    Args:
        text: Returns the current text; "" shows no tooltip.
    """

    def __init__(self, widget: tk.Misc, theme: Theme, text: Callable[[], str]) -> None:
        self._widget = widget
        self._theme = theme
        self._text: Callable[[], str] = lambda: break_at_dots(
            text(), theme.px(_WIDTH), theme.measure
        )
        self._waiting = ""
        self._window: tk.Toplevel | None = None
        self._label: tk.Label | None = None
        self._is_below = False
        widget.bind("<Enter>", self._enter, add="+")
        widget.bind("<Leave>", self._leave, add="+")
        widget.bind("<Button-1>", self._leave, add="+")

    def show_below(self) -> None:
        """Show the tooltip below the widget at once, for whoever uses keys."""
        self.hide()
        self._is_below = True
        self._show()

    def hide(self) -> None:
        """Hide the tooltip until the pointer comes again."""
        self._cancel()
        self._hide()

    def _enter(self, _: "tk.Event[tk.Misc]") -> None:
        self._cancel()
        self._waiting = self._widget.after(_DELAY_MS, self._show)

    def _leave(self, _: "tk.Event[tk.Misc]") -> None:
        self.hide()

    def _cancel(self) -> None:
        if self._waiting:
            self._widget.after_cancel(self._waiting)
            self._waiting = ""

    def _show(self) -> None:
        self._waiting = ""
        text = self._text()
        if not text or self._window is not None or not self._widget.winfo_ismapped():
            return
        theme = self._theme
        window = tk.Toplevel(self._widget)
        window.wm_overrideredirect(True)
        frame = tk.Frame(window, borderwidth=1)
        theme.paint(frame, bg="border")
        label = tk.Label(
            frame, text=text, justify="left", font="OneTrainerSmall", wraplength=theme.px(_WIDTH)
        )
        theme.paint(label, bg="raised", fg="text")
        label.configure(padx=theme.px(9), pady=theme.px(6))
        label.pack()
        frame.pack()
        window.update_idletasks()
        self._place(window)
        self._window, self._label = window, label
        self._waiting = self._widget.after(_UPDATE_EVERY_MS, self._update)

    def _update(self) -> None:
        """Update the text, or hide the tooltip when there is none."""
        self._waiting = ""
        text = self._text()
        if self._window is None or self._label is None:
            return
        if not text or not self._widget.winfo_viewable():
            self._hide()
            return
        if text != self._label.cget("text"):
            self._label.configure(text=text)
            self._window.update_idletasks()
            self._place(self._window)
        self._waiting = self._widget.after(_UPDATE_EVERY_MS, self._update)

    def _place(self, window: tk.Toplevel) -> None:
        gap = self._theme.px(_GAP)
        widget = self._widget
        start = widget.winfo_rooty() if self._is_below else widget.winfo_pointery() - gap
        left = widget.winfo_rootx() if self._is_below else widget.winfo_pointerx() + gap
        top = start + (widget.winfo_height() if self._is_below else 2 * gap)
        # Keep it on the screen, and inside its window if that is wide enough.
        above, width = widget.winfo_toplevel(), window.winfo_reqwidth()
        edge = min(above.winfo_rootx() + above.winfo_width(), window.winfo_screenwidth())
        left = max(0, min(left, edge - width - gap))
        if top + window.winfo_reqheight() > window.winfo_screenheight():
            top = start - window.winfo_reqheight()
        window.wm_geometry(f"+{left}+{top}")

    def _hide(self) -> None:
        if self._window is not None:
            self._window.destroy()
            self._window = self._label = None
        self._is_below = False
