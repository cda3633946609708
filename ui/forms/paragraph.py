"""Editor of multi-line text: a caption or a list of prompts."""

import tkinter as tk
from collections.abc import Callable
from functools import partial

from onetrainer.config.fields import Setting
from ui.model.form_fields import edit_text
from ui.theme.palette import Role
from ui.widgets.placing import give_focus, show
from ui.widgets.widgets import Widgets, can_scroll

_LINES, _LIST_LINES = 2, 5
_MAX_LINES = 9
# A setting that allows this many characters holds a list of lines rather than a paragraph.
_LIST_FROM = 100_000


class ParagraphEditor:
    """Multi-line text field that grows with its text up to a maximum.

    Tab leaves it, Return adds a line. Longer text has a scrollbar, and the wheel scrolls it first.
    """

    is_wide = True

    def __init__(
        self, widgets: Widgets, parent: tk.Misc, setting: Setting, changed: Callable[[], None]
    ) -> None:
        self._widgets = widgets
        self._changed = changed
        is_list = (setting.max_length or 0) >= _LIST_FROM
        self._least = _LIST_LINES if is_list else _LINES
        frame = widgets.frame(parent)
        text = widgets.text_box(frame, width=20, height=self._least)
        text.bind("<<Modified>>", lambda _: self.settle())
        text.bind("<Configure>", lambda _: self._fit())
        text.bind("<Tab>", lambda _: give_focus(text.tk_focusNext()))
        text.bind("<Shift-Tab>", lambda _: give_focus(text.tk_focusPrev()))
        if text.tk.call("tk", "windowingsystem") == "x11":
            text.bind("<ISO_Left_Tab>", lambda _: give_focus(text.tk_focusPrev()))
        text.pack(side="left", fill="x", expand=True)
        self._bar = widgets.scrollbar(frame, text.yview, width=12)
        text.configure(yscrollcommand=self._scrolled)
        widgets.on_wheel[text] = partial(can_scroll, text)  # Tk scrolls it as long as it can
        self._text = text
        self.widget: tk.Widget = frame
        self.focus: tk.Misc = text

    def show(self, value: object) -> None:
        text = edit_text(value)
        if self.read() != text:
            self._text.replace("1.0", "end-1c", text)
            self._text.edit_modified(False)  # before Tk's event comes, which would report it
            self._fit()

    def read(self) -> object:
        return self._text.get("1.0", "end-1c")

    def settle(self) -> None:
        """Report what was typed now, as Tk's own event about it comes after others that wait."""
        if self._text.edit_modified():
            self._changed()
            self._fit()
        self._text.edit_modified(False)

    def mark(self, severity: str) -> None:
        role: Role = "danger" if severity == "error" else "border"
        self._widgets.theme.paint(self._text, highlightbackground=role)

    def fill(self, width: int) -> None:
        """Leave it: it fills its row."""

    def _fit(self) -> None:
        """Make the field as tall as its text, within limits."""
        if self._text.winfo_width() <= 1:
            return  # before layout every character would count as a line
        lines = int(self._text.index("end-1c").partition(".")[0])
        if lines < _MAX_LINES:  # otherwise wrapped lines need no counting
            counts = ("count", "-update", "-displaylines", "1.0", "end")
            lines = int(self._text.tk.call(self._text, *counts))
        lines = min(max(lines, self._least), _MAX_LINES)
        if lines != int(self._text.cget("height")):
            self._text.configure(height=lines)

    def _scrolled(self, first: float, last: float) -> None:
        # Tk passes strings despite the annotation.
        is_whole = float(first) <= 0 and float(last) >= 1
        is_full = not is_whole and int(self._text.cget("height")) >= _MAX_LINES
        show(self._bar, is_full, side="right", fill="y", before=self._text)
        self._bar.set(float(first), float(last))
