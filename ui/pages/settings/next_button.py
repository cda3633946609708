"""Button at the foot of a page of settings that leads on to what is still to be filled in."""

import tkinter as tk

from ui.context import Context
from ui.model.form_fields import page_of, page_title
from ui.widgets.placing import show_in_grid

_BELOW_ALL = 9_000
"""Row of the grid, below those of the cards."""


class NextButton:
    """Names the next page with a setting to fill in or to correct; hidden if there is none."""

    def __init__(self, context: Context, parent: tk.Misc, page: str) -> None:
        self._context = context
        self._page = page
        self._path = ""
        widgets = context.widgets
        self._button = widgets.button(
            parent, "", self._go, name=f"next {page}", kind="quiet", ground="window"
        )
        self._button.widget.grid(row=_BELOW_ALL, column=0, sticky="e")
        show_in_grid(self._button.widget, False)

    def refresh(self) -> None:
        """Show where to go next."""
        draft = self._context.draft
        paths = [
            problem.path
            for problem in draft.problems
            if problem.severity in ("error", "missing") and problem.path
        ]
        others = (path for path in paths if page_of(path) != self._page)
        self._path = next(others, "")
        show_in_grid(self._button.widget, bool(self._path))
        if self._path:
            self._button.set_text(f"Next: {page_title(self._path)}")
            # The stacking order is the Tab order, and cards are made later.
            self._button.widget.tk.call("raise", str(self._button.widget))

    def _go(self) -> None:
        self._context.act.jump(self._path)
