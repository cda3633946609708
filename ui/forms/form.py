"""Form of one page: a card for each group of settings, with the visible rows."""

import tkinter as tk
from collections.abc import Iterator

from onetrainer.config.base.variants import KIND
from ui.forms.card import GroupCard
from ui.forms.lists import ListCard
from ui.forms.row import FormContext, Row
from ui.model.form_fields import PagePlan, groups_in
from ui.model.variants import Kinds, section_of
from ui.model.visible_settings import Seen, beside, switch_of
from ui.widgets.widgets import focused

_GAP = 14


class Form:
    """Cards of one page in a column; the rows depend on the chosen variants."""

    def __init__(self, context: FormContext, parent: tk.Misc, plan: PagePlan, *, line: int) -> None:
        self._context = context
        self._parent = parent
        self._plan = plan
        self._line = line
        self.with_advanced = False
        self.hidden = 0
        self._revealed: set[str] = set()
        self._kinds: Kinds | None = None
        # Cards of other variants are kept, so that switching back is quick.
        self._made: dict[str, GroupCard] = {}
        self._cards: list[GroupCard] = []
        self.refresh()

    def refresh(self) -> None:
        """Show the current draft."""
        kinds = self._context.draft.kinds
        used = self._row_in_use()
        if kinds != self._kinds:
            self._arrange(kinds)
        seen = Seen(self.with_advanced, self._revealed)
        self.hidden = sum(card.refresh(seen) for card in self._cards)
        for card in self._cards:
            if card.has_rows:
                card.outer.grid()
            else:
                card.outer.grid_remove()
        is_left = used is not None and focused(self._parent) is used.editor.focus
        if used is not None and is_left and not used.is_shown:
            self._hand_on(used)

    @property
    def has_cards(self) -> bool:
        """Whether the page has settings with the chosen variants."""
        return bool(self._cards)

    def row(self, path: str) -> Row | None:
        """Return the row of a setting, even if hidden; None if it is not on this page."""
        found = (card.row(path) for card in self._cards)
        return next((row for row in found if row is not None), None)

    def list_card(self, path: str) -> ListCard | None:
        """Return the list at a path; None if it is not on this page."""
        lists = (part for card in self._cards for part in card.lists)
        return next((part for part in lists if part.setting.path == path), None)

    def reveal(self, path: str) -> Row | None:
        """Show a setting even if its level hides it, and return its row."""
        self._revealed.add(path)
        for card in self._cards:
            for part in card.lists:
                part.unfold(path)
        self.refresh()
        return self.row(path)

    def commit(self) -> None:
        """Write everything typed to the draft now."""
        for row in list(self._rows()):
            row.commit()

    def _rows(self) -> Iterator[Row]:
        for card in self._cards:
            yield from card.all_rows()

    def _arrange(self, kinds: Kinds) -> None:
        """Place the cards of the chosen variants."""
        self._kinds = kinds
        groups = groups_in(self._plan, kinds)
        gap, line = self._context.kit.px(_GAP), self._line
        before, self._cards = self._cards, []
        for group in groups:
            card = self._made.get(group.key)
            if card is None:
                titled = self._plan.is_titled and not group.is_one_list
                card = GroupCard(self._context, self._parent, has_title=titled)
                self._made[group.key] = card
            card.arrange(group)
            self._cards.append(card)
            for outer in card.outers:
                outer.grid(row=line, column=0, sticky="ew", pady=(0, gap))
                # The stacking order is the Tab order.
                outer.tk.call("raise", str(outer))
                line += 1
        for card in before:
            if card not in self._cards:
                card.retire()

    def _row_in_use(self) -> Row | None:
        """Return the visible row that has the focus; None if there is none."""
        focus = focused(self._parent)
        is_here = focus is not None and str(focus).startswith(f"{self._parent}.")
        found = (row for row in self._rows() if row.editor.focus is focus and row.is_shown)
        return next(found, None) if is_here else None

    def _hand_on(self, gone: Row) -> None:
        """Move the focus from a hidden row to its replacement or to the setting that hid it."""
        path = gone.path
        row = self.row(path)
        others = [beside(path, other) for other in gone.setting.ui.only_with]
        for other in (*others, switch_of(gone.setting, path)):
            if other and (row is None or not row.is_shown):
                row = self.row(other)
        while row is None or not row.is_shown:
            path = section_of(path)
            if not path:
                return
            row = self.row(f"{path}.{KIND}")
        row.editor.focus.focus_set()
