"""Field for a path, with buttons that choose one."""

import tkinter as tk
from collections.abc import Callable
from functools import partial
from tkinter import ttk

from ui.context import Context, PathKind
from ui.widgets.changes import on_change

_TYPED_AFTER_MS = 400


class PathField:
    """Line of text with buttons; place `outer`.

    changed: called with the text a moment after it was typed, and at once after it was chosen.
    buttons: kinds of paths to choose, with the label of each button.
    browse_from: returns the path that dialogs begin at; by default it is the text.
    reported: the text that was passed last.
    """

    def __init__(
        self,
        context: Context,
        parent: tk.Misc,
        buttons: dict[PathKind, str],
        changed: Callable[[str], None],
        *,
        name: str,
        browse_from: Callable[[], str] | None = None,
    ) -> None:
        self._context = context
        self._changed = changed
        self._browse_from = browse_from or (lambda: self.text)
        self._waiting = ""
        self.reported = ""
        widgets = context.widgets
        self.outer = widgets.frame(parent)
        self._text = widgets.kept.variable(parent, name)
        self.entry = ttk.Entry(self.outer, textvariable=self._text, font="OneTrainerBody")
        self.entry.pack(side="left", fill="x", expand=True)
        self.entry.bind("<Return>", lambda _: self.commit())
        self.entry.bind("<FocusOut>", lambda _: self.commit())
        widgets.name(self.entry, name)
        for kind, label in buttons.items():
            button = widgets.button(
                self.outer, label, partial(self._choose, kind), name=f"{name} {kind}"
            )
            button.widget.pack(side="left", padx=(widgets.px(6), 0))
        on_change(self._text, self.entry, self._typed)

    @property
    def text(self) -> str:
        """The text without the quotes and spaces that come along with a copied path."""
        return self._text.get().strip().strip("\"'")

    @property
    def is_typed(self) -> bool:
        """Whether the text was not reported yet."""
        return self.text != self.reported

    def set(self, text: str) -> None:
        """Show a text that was chosen elsewhere."""
        if text != self.text:
            self._text.set(text)
            self.entry.xview_moveto(1.0)
        self.commit()

    def commit(self) -> None:
        """Report what was typed now."""
        if self._waiting:
            self.entry.after_cancel(self._waiting)
            self._waiting = ""
        if self.text != self.reported:
            self.reported = self.text
            self._changed(self.text)

    def _typed(self) -> None:
        if self._waiting:
            self.entry.after_cancel(self._waiting)
        self._waiting = self.entry.after(_TYPED_AFTER_MS, self.commit)
        self._context.act.refresh()  # the answer before is none any more, or is one again

    def _choose(self, kind: PathKind) -> None:
        chosen = self._context.act.choose_path(kind, self._browse_from())
        if chosen and self.entry.winfo_exists():
            self.set(chosen)
