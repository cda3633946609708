"""Files that are dragged onto a window from other programs."""

import tkinter as tk
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_FILES = "DND_Files"
_TAKE, _REFUSE = "copy", "refuse_drop"


@dataclass(frozen=True)
class DropTarget:
    """A window that takes files.

    Attributes:
        root: The window.
        is_open: Returns whether it takes files now.
        hover: Called with whether files are over the window.
        take: Called with the files that were dropped.
    """

    root: tk.Tk
    is_open: Callable[[], bool]
    hover: Callable[[bool], None]
    take: Callable[[list[Path]], None]

    def enable(self) -> bool:
        """Begin to take files; return whether this computer can load what that needs."""
        try:
            # Imported late: its library would slow the start of the window.
            from tkinterdnd2 import TkinterDnD

            TkinterDnD.require(self.root)
        except (ImportError, RuntimeError, tk.TclError):
            return False  # a system for which it is not built
        call, register = self.root.tk.call, self.root.register
        call("tkdnd::drop_target", "register", self.root, _FILES)
        call("bind", self.root, "<<DropEnter>>", register(self._entered))
        call("bind", self.root, "<<DropPosition>>", register(self._answer))
        call("bind", self.root, "<<DropLeave>>", register(self._left))
        call("bind", self.root, "<<Drop>>", f"{register(self._dropped)} %D")
        return True

    def _answer(self) -> str:
        return _TAKE if self.is_open() else _REFUSE

    def _entered(self) -> str:
        self.hover(self.is_open())
        return self._answer()

    def _left(self) -> None:
        self.hover(False)

    def _dropped(self, files: str) -> str:
        self.hover(False)
        answer = self._answer()
        if answer == _TAKE:
            paths = [Path(str(file)) for file in self.root.tk.splitlist(files)]
            # Once the other program has its answer: a question would keep it waiting.
            self.root.after_idle(self.take, paths)
        return answer
