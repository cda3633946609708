"""Card with the settings of one config section and its nested sections."""

import tkinter as tk
from collections import Counter
from collections.abc import Iterator, Mapping

from onetrainer.config.fields import Setting
from ui.forms.lists import ListCard
from ui.forms.row import (
    COLUMNS,
    LABEL_WIDTH,
    LINES,
    NARROW_LABEL_WIDTH,
    FormContext,
    Plot,
    Row,
    make_columns,
)
from ui.forms.rows import Rows, Slot
from ui.model.form_fields import Group
from ui.model.variants import entries_of, is_variant_choice, section_of
from ui.model.visible_settings import Visibility, has_effect, is_visible
from ui.widgets.placing import show_in_grid
from ui.widgets.widgets import Label

_WRAP = 620
# Number of rows from which a nested section has a title.
_TITLED_FROM = 2


class GroupCard:
    """Card with the settings of a section, and its lists on this card or on cards that follow.

    Rows are created when first needed and kept, also while a variant without them is chosen.
    """

    def __init__(self, context: FormContext, parent: tk.Misc, *, has_title: bool) -> None:
        widgets = context.widgets
        self._context = context
        self._parent = parent
        self._has_title = has_title
        self.outer, self._frame = widgets.card(parent)
        self._title = widgets.label(self._frame, style="Heading")
        self._help = widgets.label(self._frame, style="SmallDim")
        if has_title:
            self._title.grid(row=0, column=0, columnspan=COLUMNS, sticky="w")
            self._help.grid(
                row=1, column=0, columnspan=COLUMNS, sticky="w", pady=(widgets.px(2), widgets.px(8))
            )
        self._rows = Rows(context)
        # Rows and lists by setting, also of variants that are not chosen.
        self._made_rows: dict[Setting, Row] = {}
        self._made_lists: dict[Setting, ListCard] = {}
        self._titles: dict[str, Label] = {}
        self.lists: list[ListCard] = []
        self._plot: Plot | None = None
        self.fit()

    @property
    def outers(self) -> list[tk.Widget]:
        """Widgets to place in the column of the page, from top to bottom."""
        return [self.outer, *(list_card.outer for list_card in self.lists if not self._has_title)]

    def arrange(self, group: Group) -> None:
        """Take over the settings of the chosen variants, and put aside the widgets of others."""
        # The lead of the first setting is the lead of the card.
        first = group.settings[0].ui.lead if group.settings and self._has_title else ""
        self._title.say(group.title)
        self._help.say(first or group.help)
        self._made_rows |= {_known(slot.setting): slot.row for slot in self._rows.slots if slot.row}
        before, before_lists = list(self._rows), self.lists
        self._rows.slots, self.lists = [], []
        line = 2
        for section in (group, *group.subgroups):
            if section is not group:
                self._place_title(section, line)
                line += 1
            for setting in section.settings:
                if setting.kind == "list":
                    self._add_list(setting)
                    continue
                row = self._made_rows.get(_known(setting))
                slot = Slot(setting, setting.path, self._frame, line, row=row)
                self._rows.slots.append(slot)
                if row is not None:
                    self._rows.ensure(slot)
                line += LINES
        kept = list(self._rows)
        for row in before:
            if row not in kept:
                row.detach()
        for list_card in before_lists:
            if list_card not in self.lists:
                list_card.outer.grid_remove()
        self._place_foot(group.key, line)
        self._rows.is_in_order = False

    def _place_foot(self, section: str, line: int) -> None:
        """Place the lists of the card, and its plot."""
        if self._has_title:
            for index, entries in enumerate(self.lists):
                entries.outer.grid(row=line + index, column=0, columnspan=COLUMNS, sticky="ew")
        make = self._context.plots.get(section)
        if make is not None and self._plot is None:
            self._plot = make(self._frame)
        if self._plot is not None:
            below = line + len(self.lists)
            self._plot.widget.grid(row=below, column=2, columnspan=3, sticky="w")

    def fit(self) -> None:
        """Fit texts and rows to the room that the form has now."""
        label_width = NARROW_LABEL_WIDTH if self._context.is_narrow else LABEL_WIDTH
        make_columns(self._context.widgets, self._frame, label_width=label_width)
        self._help.configure(wraplength=self._context.fitting(_WRAP))
        for row in (*self._rows, *self._made_rows.values()):
            row.line = -1  # placed anew when it is shown
        for list_card in self._made_lists.values():
            list_card.fit()

    def detach(self) -> None:
        """Remove the card from the page, because its section no longer exists."""
        for row in self._rows:
            row.detach()
        for outer in self.outers:
            outer.grid_remove()

    def refresh(self, visibility: Visibility) -> int:
        """Show the visible rows, and return the number of hidden advanced settings."""
        draft = self._context.draft
        shown = self._rows.refresh(visibility, has_title=self._has_title)
        hidden = [slot.setting for slot in self._rows.slots if slot not in shown]
        self._show_titles(Counter(section_of(slot.path) for slot in shown))
        for list_card in self.lists:
            setting = list_card.setting
            is_shown = is_visible(draft, setting, setting.path, visibility)
            hidden += [] if is_shown else [setting]
            list_card.refresh(visibility, is_shown=is_shown)
        if self._rows.restore_tab_order():
            for list_card in self.lists:
                list_card.outer.tk.call("raise", str(list_card.outer))
        if self._plot is not None:
            self._plot.draw()
        return sum(has_effect(draft, setting, setting.path) for setting in hidden)

    @property
    def has_rows(self) -> bool:
        """Whether the card has anything to show."""
        has_lists = self._has_title and any(list_card.is_shown for list_card in self.lists)
        return has_lists or any(row.is_shown for row in self._rows)

    def row(self, path: str) -> Row | None:
        """Return the row of a setting, created if needed; None if it is not on the card."""
        places = (self._rows.find, *(list_card.row for list_card in self.lists))
        return next((row for find in places if (row := find(path)) is not None), None)

    def all_rows(self) -> Iterator[Row]:
        """Yield every existing row of the current settings, including those in lists."""
        yield from self._rows
        for list_card in self.lists:
            yield from list_card.rows()

    def _add_list(self, setting: Setting) -> None:
        if not entries_of(setting):
            return
        list_card = self._made_lists.get(_known(setting))
        if list_card is None:
            parent = self._frame if self._has_title else self._parent
            list_card = ListCard(self._context, parent, setting, is_inner=self._has_title)
            self._made_lists[_known(setting)] = list_card
        self.lists.append(list_card)

    def _place_title(self, section: Group, line: int) -> None:
        widgets = self._context.widgets
        label = self._titles.get(section.key)
        if label is None:
            label = self._titles[section.key] = widgets.label(self._frame, style="Bold")
        label.say(section.title)
        label.grid(
            row=line, column=0, columnspan=COLUMNS, sticky="w", pady=(widgets.px(14), widgets.px(2))
        )

    def _show_titles(self, shown: Mapping[str, int]) -> None:
        """Show the titles of nested sections that have more than one visible row."""
        # The choice of a variant serves as title.
        slots = self._rows.slots
        chosen = {section_of(slot.path) for slot in slots if is_variant_choice(slot.path)}
        for key, label in self._titles.items():
            show_in_grid(label, shown.get(key, 0) >= _TITLED_FROM and key not in chosen)


def _known(setting: Setting) -> Setting:
    """Return what a setting is to the user, whichever variants have it."""
    return setting._replace(needs=())
