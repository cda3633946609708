"""Editor of how long or how often: a number, its unit, and what that is in other units."""

import tkinter as tk
from collections.abc import Callable
from tkinter import ttk
from typing import get_args

from onetrainer.config.base.amount import Amount, Unit, parse_amount
from onetrainer.config.fields import Setting
from ui.model.form_fields import edit_text, parse_value
from ui.widgets.changes import on_change
from ui.widgets.widgets import Widgets, focused

STEPS = "steps"
UNITS = (STEPS, *get_args(Unit))
_NUMBER_CHARACTERS = 9
_UNIT_CHARACTERS = 9


class AmountEditor:
    """A number with the choice of its unit; an amount such as "10 epochs" may also be typed."""

    is_wide = False

    def __init__(
        self, widgets: Widgets, parent: tk.Misc, setting: Setting, changed: Callable[[], None]
    ) -> None:
        self._setting = setting
        self._changed = changed
        self._note = ""
        self._is_showing = False
        self._text = tk.StringVar(parent)
        frame = widgets.frame(parent)
        entry = ttk.Entry(
            frame, textvariable=self._text, font="OneTrainerBody", width=_NUMBER_CHARACTERS
        )
        self.unit = ttk.Combobox(
            frame, values=UNITS, state="readonly", width=_UNIT_CHARACTERS, font="OneTrainerBody"
        )
        self.unit.set(STEPS)
        self._label = widgets.label(frame, style="Dim")
        self._gap = widgets.px(6)
        entry.grid(row=0, column=0, sticky="ew")
        self.unit.grid(row=0, column=1, padx=(self._gap, 0))
        self._apart = widgets.px(8)
        self.place_note(is_below=False)
        self._frame = frame
        self.unit.bind("<<ComboboxSelected>>", lambda _: self._unit_chosen(), add="+")
        entry.bind("<FocusOut>", lambda _: self._normalize(), add="+")
        on_change(self._text, entry, self._typed)
        self.widget: tk.Widget = frame
        self.focus: tk.Misc = entry
        self._entry = entry

    def place_note(self, *, is_below: bool) -> None:
        """Put what the amount is in other units beside the unit, or below the number."""
        if is_below:
            self._label.grid(row=1, column=0, columnspan=2, sticky="w", padx=0)
        else:
            self._label.grid(row=0, column=2, columnspan=1, padx=(self._apart, 0))

    def show(self, value: object) -> None:
        """Show a value; text being typed that means the same is left alone."""
        if focused(self._entry) is not self._entry or self.read() != value:
            amount = parse_amount(value) if isinstance(value, str) else value
            number, unit = value, STEPS
            if isinstance(amount, Amount):
                number, unit = amount.count, amount.unit
            if number != 0:  # a zero has no unit
                self.unit.set(unit)
            self._is_showing = True
            self._text.set(edit_text(number))
            self._is_showing = False
        self.set_note(self._note)

    def read(self) -> object:
        """Return the steps or the amount shown, or the text if it is neither."""
        text = self._text.get()
        typed = parse_amount(text)
        if typed is None and self.unit.get() != STEPS:
            typed = parse_amount(f"{text} {self.unit.get()}")
        if isinstance(typed, Amount):
            return str(typed) if typed.count else 0
        return parse_value(text, self._setting) if typed is None else typed

    def set_note(self, note: str) -> None:
        """Show what the amount is in other units, or what 0 means."""
        self._note = note
        self._label.say(self._setting.ui.zero if self.read() == 0 else note)

    def mark(self, severity: str) -> None:
        self._entry.state(
            [
                "invalid" if severity == "error" else "!invalid",
                "alternate" if severity == "warning" else "!alternate",
            ]
        )

    def fill(self, width: int) -> None:
        """Make number and unit together as wide as other fields."""
        rest = width - self._gap - self.unit.winfo_reqwidth()
        self._frame.grid_columnconfigure(0, minsize=max(0, rest))

    def _typed(self) -> None:
        if not self._is_showing:
            self.set_note(self._note)
            self._changed()

    def _unit_chosen(self) -> None:
        self.unit.selection_clear()
        self._changed()

    def _normalize(self) -> None:
        """Divide what was typed into its number and its unit."""
        self._entry.selection_clear()
        typed = parse_amount(self._text.get())
        if typed is not None:
            self.show(str(typed) if isinstance(typed, Amount) else typed)
