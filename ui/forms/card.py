"""Card with the settings of one config section and its nested sections."""

import tkinter as tk
from collections.abc import Iterator, Mapping
from dataclasses import replace
from tkinter import ttk

from onetrainer.config.fields import Setting
from ui.forms.lists import ListCard
from ui.forms.row import (
    LABEL_WIDTH,
    LINES,
    FormContext,
    Plot,
    Row,
    Slot,
    restore_tab_order,
    show_leads,
)
from ui.model.form_fields import Group
from ui.model.variants import entries_of, is_variant_choice, section_of
from ui.model.visible_settings import Visibility, has_effect, is_visible

_WRAP = 620
# Number of rows from which a nested section has a title.
_TITLED_FROM = 2


class GroupCard:
    """Card with the settings of a section, and its lists on this card or on cards that follow.

    Rows are created when first needed and kept, also while a variant without them is chosen.
    """

    def __init__(self, context: FormContext, parent: tk.Misc, *, has_title: bool) -> None:
        kit = context.kit
        self._context = context
        self._parent = parent
        self._has_title = has_title
        self.outer, self._frame = kit.card(parent)
        self._title: ttk.Label = kit.label(self._frame, style="Heading")
        self._help: ttk.Label = kit.label(self._frame, style="SmallDim", wrap=_WRAP)
        if has_title:
            self._title.grid(row=0, column=0, columnspan=4, sticky="w")
            self._help.grid(row=1, column=0, columnspan=4, sticky="w", pady=(kit.px(2), kit.px(8)))
        self._frame.grid_columnconfigure(0, minsize=kit.px(10))
        self._frame.grid_columnconfigure(1, minsize=kit.px(LABEL_WIDTH))
        self._frame.grid_columnconfigure(2, weight=1)
        self._frame.grid_columnconfigure(3, minsize=kit.px(34))
        self._slots: list[Slot] = []
        self._rows: dict[str, list[Row]] = {}
        self._titles: dict[str, ttk.Label] = {}
        self._lists_by_path: dict[str, list[ListCard]] = {}
        self.lists: list[ListCard] = []
        self._plot: Plot | None = None
        self._is_in_order = True

    @property
    def outers(self) -> list[tk.Widget]:
        """Widgets to place in the column of the page, from top to bottom."""
        return [self.outer, *(list_card.outer for list_card in self.lists if not self._has_title)]

    def arrange(self, group: Group) -> None:
        """Take over the settings of the chosen variants, and put aside the widgets of others."""
        # The lead of the first setting is the lead of the card.
        first = group.settings[0].ui.lead if group.settings and self._has_title else ""
        self._title.configure(text=group.title)
        self._help.configure(text=first or group.help)
        before, before_lists = self._slots, self.lists
        self._slots, self.lists = [], []
        line = 2
        for section in (group, *group.subgroups):
            if section is not group:
                self._place_title(section, line)
                line += 1
            for setting in section.settings:
                if setting.kind == "list":
                    self._add_list(setting)
                else:
                    self._slots.append(
                        Slot(
                            setting,
                            setting.path,
                            self._frame,
                            line,
                            row=self._reusable_row(setting),
                        )
                    )
                    line += LINES
        self._detach_others(before, before_lists)
        for slot in self._slots:
            self._move_row(slot)
        if self._has_title:
            for index, entries in enumerate(self.lists):
                entries.outer.grid(row=line + index, column=0, columnspan=4, sticky="ew")
        self._place_plot(group.key, line + len(self.lists))
        self._is_in_order = False

    def detach(self) -> None:
        """Remove the card from the page, because its section no longer exists."""
        for slot in self._slots:
            if slot.row is not None:
                slot.row.detach()
        for outer in self.outers:
            outer.grid_remove()

    def refresh(self, visibility: Visibility) -> int:
        """Show the visible rows, and return the number of hidden advanced settings."""
        hidden = 0
        shown: dict[str, int] = {}
        for slot in self._slots:
            if self._is_visible(slot.setting, visibility):
                self._show(slot)
                section = section_of(slot.path)
                shown[section] = shown.get(section, 0) + 1
            else:
                hidden += self._has_effect(slot.setting)
                if slot.row is not None:
                    slot.row.hide()
        self._show_titles(shown)
        show_leads(self._slots, self._slots[0].row if self._slots and self._has_title else None)
        for list_card in self.lists:
            is_shown = self._is_visible(list_card.setting, visibility)
            hidden += not is_shown and self._has_effect(list_card.setting)
            list_card.refresh(visibility, is_shown=is_shown)
        self._restore_tab_order()
        if self._plot is not None:
            self._plot.draw()
        return hidden

    @property
    def has_rows(self) -> bool:
        """Whether the card has anything to show."""
        has_lists = self._has_title and any(list_card.is_shown for list_card in self.lists)
        return has_lists or any(slot.row is not None and slot.row.is_shown for slot in self._slots)

    def row(self, path: str) -> Row | None:
        """Return the row of a setting, created if needed; None if it is not on the card."""
        for slot in self._slots:
            if slot.setting.path == path:
                return slot.row or self._make_row(slot)
        found = (list_card.row(path) for list_card in self.lists)
        return next((row for row in found if row is not None), None)

    def all_rows(self) -> Iterator[Row]:
        """Yield every existing row of the current settings, including those in lists."""
        for slot in self._slots:
            if slot.row is not None:
                yield slot.row
        for list_card in self.lists:
            yield from list_card.rows()

    def _is_visible(self, setting: Setting, visibility: Visibility) -> bool:
        return is_visible(self._context.draft, setting, setting.path, visibility)

    def _has_effect(self, setting: Setting) -> bool:
        return has_effect(self._context.draft, setting, setting.path)

    def _show(self, slot: Slot) -> None:
        row = slot.row or self._make_row(slot)
        if row.is_shown:
            row.refresh()
        else:
            row.show()

    def _make_row(self, slot: Slot) -> Row:
        """Create the row of a setting, hidden at first."""
        row = Row(self._context, self._frame, slot.setting)
        self._rows.setdefault(row.path, []).append(row)
        slot.row = row
        self._move_row(slot)
        row.hide()
        self._is_in_order = False
        return row

    def _move_row(self, slot: Slot) -> None:
        """Move a row to the current position of its setting."""
        row = slot.row
        if row is not None and row.line != slot.line:
            was_shown = row.is_shown
            row.place(slot.line)
            if not was_shown:
                row.hide()

    def _reusable_row(self, setting: Setting) -> Row | None:
        """Return an existing row of the same setting, registered by its names again."""
        for row in self._rows.get(setting.path, []):
            if _same(row.setting, setting):
                row.register_names()
                return row
        return None

    def _add_list(self, setting: Setting) -> None:
        if not entries_of(setting):
            return
        known = self._lists_by_path.setdefault(setting.path, [])
        list_card = next((made for made in known if _same(made.setting, setting)), None)
        if list_card is None:
            parent = self._frame if self._has_title else self._parent
            list_card = ListCard(self._context, parent, setting, is_inner=self._has_title)
            known.append(list_card)
        list_card.register_names()
        self.lists.append(list_card)

    def _detach_others(self, slots: list[Slot], lists: list[ListCard]) -> None:
        there = {id(slot.row) for slot in self._slots}
        for slot in slots:
            if slot.row is not None and id(slot.row) not in there:
                slot.row.detach()
        for list_card in lists:
            if list_card not in self.lists:
                list_card.outer.grid_remove()

    def _place_plot(self, section: str, line: int) -> None:
        make = self._context.plots.get(section)
        if make is not None and self._plot is None:
            self._plot = make(self._frame)
        if self._plot is not None:
            self._plot.widget.grid(row=line, column=2, columnspan=2, sticky="w")

    def _place_title(self, section: Group, line: int) -> None:
        kit = self._context.kit
        label = self._titles.get(section.key)
        if label is None:
            label = self._titles[section.key] = kit.label(self._frame, style="Bold")
        label.configure(text=section.title)
        label.grid(row=line, column=0, columnspan=4, sticky="w", pady=(kit.px(14), kit.px(2)))

    def _show_titles(self, shown: Mapping[str, int]) -> None:
        """Show the titles of nested sections that have more than one visible row."""
        # The choice of a variant serves as title.
        chosen = {section_of(slot.path) for slot in self._slots if is_variant_choice(slot.path)}
        for key, label in self._titles.items():
            if shown.get(key, 0) >= _TITLED_FROM and key not in chosen:
                label.grid()
            else:
                label.grid_remove()

    def _restore_tab_order(self) -> None:
        if self._is_in_order:
            return
        self._is_in_order = True
        restore_tab_order(self._slots)
        for list_card in self.lists:
            list_card.outer.tk.call("raise", str(list_card.outer))


def _same(one: Setting, other: Setting) -> bool:
    """Return whether the settings of two variants are the same to the user."""
    return replace(one, needs=()) == replace(other, needs=())
