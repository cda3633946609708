"""Help below the field that has the keyboard, where there is no room next to the settings."""

import tkinter as tk

from onetrainer.config.fields import Setting
from ui.forms.row import Row
from ui.messages.line_breaks import break_at_dots
from ui.model.draft import Draft
from ui.pages.settings.help_card import help_and_facts
from ui.widgets.widgets import Widgets

_MARGIN = 64


class HelpBelow:
    """Help of a setting, in its own card. path: the setting that is explained; "" for none."""

    def __init__(self, widgets: Widgets, draft: Draft, column: tk.Misc, *, name: str) -> None:
        self._widgets, self._draft = widgets, draft
        self._place: tuple[object, ...] = ()
        self.path = ""
        self.frame = widgets.striped(column)
        self._text = widgets.label(self.frame, style="Small")
        self._facts = widgets.label(self.frame, style="SmallDim")
        for label in (self._text, self._facts):
            label.pack(anchor="w")
        widgets.name(self.frame, name)

    def show(self, setting: Setting, path: str, row: Row, width: int) -> None:
        """Show the help of a setting below its row. width: Of the card, in pixels."""
        texts = help_and_facts(self._draft, setting, path)
        room = width - self._widgets.px(_MARGIN)
        for label, text in zip((self._text, self._facts), texts, strict=True):
            label.configure(wraplength=room)
            label.say(break_at_dots(text, room, self._widgets.theme.measure))
        if self.path != path or self._place != row.place_below:
            self.path, self._place = path, row.place_below
            row.show_below(self.frame)

    def hide(self) -> None:
        """Remove the help from the page."""
        self.path, self._place = "", ()
        self.frame.grid_forget()
