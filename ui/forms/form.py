"""A page's groups of settings as cards, with the rows that are to be seen now."""

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
    """All cards of one page, in one column; with other kinds of sections there are other rows."""

    def __init__(self, context: FormContext, parent: tk.Misc, plan: PagePlan, *, line: int) -> None:
        self._context = context
        self._parent = parent
        self._plan = plan
        self._line = line
        self.with_advanced = False
        self.hidden = 0
        self._revealed: set[str] = set()
        self._kinds: Kinds | None = None
        # Those of other kinds are kept, so that going back to them is quick.
        self._build_adapter: dict[str, GroupCard] = {}
        self._cards: list[GroupCard] = []
        self.refresh()

    def refresh(self) -> None:
        """Shows the draft as it is now."""
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
        """Whether there are settings on the page with the kinds that are chosen."""
        return bool(self._cards)

    def row(self, path: str) -> Row | None:
        """The row of a setting, also one that is not to be seen; None if it is not on this page."""
        found = (card.row(path) for card in self._cards)
        return next((row for row in found if row is not None), None)

    def list_card(self, path: str) -> ListCard | None:
        """The list at a path; None if there is none on this page."""
        lists = (part for card in self._cards for part in card.lists)
        return next((part for part in lists if part.setting.path == path), None)

    def reveal(self, path: str) -> Row | None:
        """Shows a setting even where its level would hide it."""
        self._revealed.add(path)
        for card in self._cards:
            for part in card.lists:
                part.unfold(path)
        self.refresh()
        return self.row(path)

    def commit(self) -> None:
        """Hands everything that was typed to the draft now."""
        for row in list(self._rows()):
            row.commit()

    def _rows(self) -> Iterator[Row]:
        for card in self._cards:
            yield from card.all_rows()

    def _arrange(self, kinds: Kinds) -> None:
        """Puts the cards in order that there are with these kinds."""
        self._kinds = kinds
        groups = groups_in(self._plan, kinds)
        gap, line = self._context.kit.px(_GAP), self._line
        before, self._cards = self._cards, []
        for group in groups:
            card = self._build_adapter.get(group.key)
            if card is None:
                titled = self._plan.is_titled and not group.is_one_list
                card = GroupCard(self._context, self._parent, has_title=titled)
                self._build_adapter[group.key] = card
            card.arrange(group)
            self._cards.append(card)
            for outer in card.outers:
                outer.grid(row=line, column=0, sticky="ew", pady=(0, gap))
                # The Tab key goes by this order.
                outer.tk.call("raise", str(outer))
                line += 1
        for card in before:
            if card not in self._cards:
                card.retire()

    def _row_in_use(self) -> Row | None:
        """The row with the keyboard; None also where it is one that is not to be seen."""
        focus = focused(self._parent)
        is_here = focus is not None and str(focus).startswith(f"{self._parent}.")
        found = (row for row in self._rows() if row.editor.focus is focus and row.is_shown)
        return next(found, None) if is_here else None

    def _hand_on(self, gone: Row) -> None:
        """Gives the keyboard to what is in a row's place, or to a choice that it depends on."""
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
