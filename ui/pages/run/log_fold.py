"""The worker's log in the banner: folded, and as high as some lines when it is open."""

import tkinter as tk

from ui.context import Context
from ui.progress.worker_log import worker_log_tail
from ui.theme.theme import MONO
from ui.widgets.placing import give_focus, show

_HEIGHT = 8  # lines
_NOTHING = "The log holds nothing but messages of libraries."


class LogFold:
    """Lines of the log to scroll in and copy from, and a button that shows the whole log."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets = context.widgets
        self._frame = widgets.frame(parent)
        self._box = widgets.text_box(self._frame, width=1, height=_HEIGHT)
        self._box.configure(font=MONO, state="disabled", takefocus=1)
        self._bar = widgets.scrollbar(self._frame, self._box.yview)
        self._box.configure(yscrollcommand=self._bar.set)
        whole = widgets.button(self._frame, "Whole log", context.act.show_log, name="open log")
        whole.widget.pack(side="bottom", anchor="w", pady=(widgets.px(8), 0))
        self._box.pack(side="left", fill="x", expand=True)
        self._box.bind("<Tab>", lambda _: give_focus(self._box.tk_focusNext()))
        widgets.on_wheel[self._box] = lambda _: None  # Tk scrolls it
        widgets.name(self._box, "log lines")

    @property
    def is_open(self) -> bool:
        """Whether the lines are shown."""
        return bool(self._frame.winfo_manager())

    @property
    def text(self) -> str:
        """The lines; "" while they are folded."""
        return self._box.get("1.0", "end-1c") if self.is_open else ""

    def close(self) -> None:
        """Fold the lines."""
        show(self._frame, False)

    def toggle(self) -> None:
        """Show what the log says now, or fold it."""
        folder = self._context.session.folder
        if self.is_open or folder is None:
            self.close()
            return
        lines = worker_log_tail(folder.log)
        self._box.configure(state="normal", height=min(_HEIGHT, max(1, len(lines))))
        self._box.delete("1.0", "end")
        self._box.insert("1.0", "\n".join(lines) or _NOTHING)
        self._box.configure(state="disabled")
        self._box.see("end")
        show(self._bar, len(lines) > _HEIGHT, side="right", fill="y", before=self._box)
        show(self._frame, True, fill="x", pady=(self._context.widgets.px(10), 0))
