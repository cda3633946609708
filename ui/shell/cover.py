"""A plain sheet over the window while its pages are rebuilt."""

import tkinter as tk
from collections.abc import Callable

from ui.theme.theme import Theme

_LOOK_AGAIN_MS = 100


class Cover:
    """Receives the keys meanwhile, and lives as long as the window.

    X sends a key to the widget below the pointer; Tk drops it if that widget is destroyed by then.
    """

    def __init__(self, theme: Theme) -> None:
        self._root = theme.root
        self._sheet = tk.Frame(theme.root)
        theme.paint(self._sheet, bg="window")
        # Otherwise a click would give it the keyboard.
        self._sheet.bind("<Button-1>", lambda _: "break")

    def show(self, then: Callable[[], object]) -> None:
        """Cover the window; call a function once the keys pressed before have been handled.

        The function is called by a timer while no dialog is open. As idle work, it would also run
        inside any `update_idletasks`, and destroy the widgets that the caller is laying out; while
        a dialog is open, it would destroy those of the code that waits for the answer.
        """
        self._root.after(1, self._place, then)

    def _place(self, then: Callable[[], object]) -> None:
        if self._has_dialog():
            self._root.after(_LOOK_AGAIN_MS, self._place, then)
            return
        self._sheet.place(relwidth=1, relheight=1)
        self._sheet.lift()
        self._root.update_idletasks()
        self._root.winfo_pointerxy()  # its answer arrives after all keys pressed before
        # Those keys are handled in the first turn of the loop.
        self._root.after(1, lambda: self._root.after(1, self._end, then))

    def _end(self, then: Callable[[], object]) -> None:
        if self._has_dialog():  # which one of those keys has opened
            self.hide()
            self._place(then)
        else:
            then()

    def _has_dialog(self) -> bool:
        """Return whether a dialog is open: the window's, Tk's or the desktop's, or a list."""
        call, split = self._root.tk.call, self._root.tk.splitlist
        if call("grab", "current", self._root) or int(call("tk", "busy", "status", self._root)):
            return True
        return any(
            str(call("winfo", "toplevel", child)) == child
            and str(call("wm", "transient", child))
            and str(call("wm", "state", child)) != "withdrawn"
            for child in map(str, split(call("winfo", "children", self._root)))
        )

    def hide(self) -> None:
        """Show the window again."""
        self._sheet.place_forget()

    def clear(self) -> None:
        """Destroy all other widgets, and end their timers, which Tk would report otherwise."""
        for child in self._root.winfo_children():
            if child is not self._sheet:
                child.destroy()
        call, split = self._root.tk.call, self._root.tk.splitlist
        for timer in split(call("after", "info")):
            name = split(split(call("after", "info", timer))[0])[0]
            if not call("info", "commands", name):
                call("after", "cancel", timer)
