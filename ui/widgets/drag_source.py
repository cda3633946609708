"""Files that are dragged from a widget of this window into other programs."""

import tkinter as tk
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ui.widgets.widgets import Widgets

_FILES, _BUTTON = "DND_Files", 1
# tkdnd's own, for Tk's selection, loses every text/uri-list on X11.
_AS_TEXT = "proc ::tkdnd::xdnd::getFormatForType type {return UTF8_STRING}"
# Once the page is on the screen and rests.
_ENABLE_AFTER_MS = 700
_TAG = f"TkDND_Drag{_BUTTON}"


@dataclass(frozen=True)
class DragSource:
    """A widget to drag files from.

    Attributes:
        widget: Where a drag begins.
        files: Returns what is dragged; nothing for no drag.
    """

    widgets: Widgets
    widget: tk.Misc
    files: Callable[[], list[Path]]

    def enable_soon(self) -> None:
        """Let files be dragged in a moment."""
        self.widget.after(_ENABLE_AFTER_MS, self.enable)

    def enable(self) -> bool:
        """Let files be dragged; return whether this computer can load what that needs."""
        try:
            # Imported late: its library would slow the start of the window.
            from tkinterdnd2 import TkinterDnD

            TkinterDnD.require(self.widget)
        except (ImportError, RuntimeError, tk.TclError):
            return False  # a system for which it is not built
        call, register = self.widget.tk.call, self.widget.register
        if self._is_x11:
            call("eval", _AS_TEXT)
        call("tkdnd::drag_source", "register", self.widget, _FILES, _BUTTON)
        # Before the widget's own bindings, which end what a press does.
        tags = [_TAG, *(tag for tag in self.widget.bindtags() if tag != _TAG)]
        self.widget.bindtags(tuple(tags))
        call("bind", self.widget, "<<DragInitCmd>>", register(self._begin))
        call("bind", self.widget, "<<DragEndCmd>>", register(self._end))
        return True

    @property
    def _is_x11(self) -> bool:
        return str(self.widget.tk.call("tk", "windowingsystem")) == "x11"

    def _begin(self) -> tuple[str, ...] | tuple[str, str, tuple[str, ...]]:
        paths = [path for path in self.files() if path.exists()]
        if not paths:
            return ("refuse_drop",)
        self.widgets.is_dragging = True
        names = (path.as_uri() if self._is_x11 else str(path) for path in paths)
        return ("copy", _FILES, tuple(names))

    def _end(self) -> None:
        self.widgets.is_dragging = False
