"""Rows of a card or of a list entry, created when they are first shown."""

import tkinter as tk
from collections.abc import Iterator
from dataclasses import dataclass

from onetrainer.config.fields import Setting
from ui.forms.row import FormContext, Row
from ui.model.visible_settings import Visibility, is_visible


@dataclass
class Slot:
    """Position of a setting on a card or in an entry.

    Attributes:
        path: Of the setting, which may be inside a list entry.
        is_stacked: Whether it is side by side with others.
        row: Its widgets, created when first needed.
    """

    setting: Setting
    path: str
    parent: tk.Misc
    line: int
    is_stacked: bool = False
    row: Row | None = None


class Rows:
    """Slots in reading order with their rows."""

    def __init__(self, context: FormContext) -> None:
        self._context = context
        self.slots: list[Slot] = []
        self.is_in_order = True

    def __iter__(self) -> Iterator[Row]:
        return (slot.row for slot in self.slots if slot.row is not None)

    def ensure(self, slot: Slot) -> Row:
        """Return the row of a slot, created and hidden if there is none yet."""
        if slot.row is None:
            slot.row = Row(self._context, slot.parent, slot.setting, slot.path)
            self.is_in_order = False
        if slot.row.line != slot.line:
            is_shown = slot.row.is_shown
            slot.row.place(slot.line, is_stacked=slot.is_stacked)
            if not is_shown:
                slot.row.hide()
        return slot.row

    def find(self, path: str) -> Row | None:
        """Return the row of a setting, created if needed; None if it has no slot."""
        return next((self.ensure(slot) for slot in self.slots if slot.path == path), None)

    def refresh(self, visibility: Visibility, *, has_title: bool = False) -> list[Slot]:
        """Show the visible rows, and return their slots.

        has_title: whether the lead of the first row is shown elsewhere.
        """
        shown = []
        for slot in self.slots:
            if is_visible(self._context.draft, slot.setting, slot.path, visibility):
                self.ensure(slot).show()
                shown.append(slot)
            elif slot.row is not None:
                slot.row.hide()
        self._show_leads(self.slots[0].row if self.slots and has_title else None)
        return shown

    def restore_tab_order(self) -> bool:
        """Let Tab visit rows in reading order; return whether they were not in it."""
        was_in_order, self.is_in_order = self.is_in_order, True
        for row in () if was_in_order else self:
            row.raise_in_tab_order()
        return not was_in_order

    def _show_leads(self, of_card: Row | None) -> None:
        """Show the leads of groups that have a visible row.

        A group extends to the end of the section of its first setting.
        """
        lead: Row | None = None
        section = ""
        led: list[Row] = []
        for slot in self.slots:
            if slot.setting.ui.lead:
                lead, section = slot.row, slot.setting.path.rpartition(".")[0]
            is_inside = slot.setting.path.startswith(f"{section}." if section else "")
            if lead is not None and is_inside and slot.row is not None and slot.row.is_shown:
                led.append(lead)
        for row in self:
            row.show_lead(is_shown=row in led and row is not of_card)
