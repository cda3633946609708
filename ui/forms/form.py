"""Form of one page: a card for each group of settings, with the visible rows."""

import tkinter as tk
from collections.abc import Iterator
from tkinter import ttk

from onetrainer.config.base.variants import KIND
from ui.forms.card import GroupCard
from ui.forms.lists import ListCard
from ui.forms.row import FormContext, Row
from ui.model.form_fields import Group, PagePlan, groups_in
from ui.model.variants import Variants, section_of
from ui.model.visible_settings import Visibility, sibling_path, switch_path
from ui.widgets.placing import show_in_grid
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
        self._variants: Variants | None = None
        # Cards of other variants are kept, so that switching back is quick.
        self._made: dict[str, GroupCard] = {}
        self._cards: list[GroupCard] = []
        self._columns = 1
        self._boxes: list[ttk.Frame] = []
        self._placed: tuple[object, ...] = ()

    def prepare(self, width: int) -> Iterator[None]:
        """Create the cards and the rows that `refresh` will show, and yield after each piece.

        width: Of the cards in pixels, as far as it is known before the page is shown.
        """
        self._context.room.width = width
        for group in groups_in(self._plan, self._context.draft.variants):
            card = self._card(group)
            card.arrange(group)
            yield
            visibility = Visibility(self.with_advanced, self._revealed)
            for list_card in card.lists:
                yield from list_card.prepare(visibility)
            card.refresh(visibility)
            yield

    def refresh(self) -> None:
        """Show the current draft."""
        variants = self._context.draft.variants
        focused_row = self._focused_row()
        if variants != self._variants:
            self._arrange(variants)
        visibility = Visibility(self.with_advanced, self._revealed)
        self.hidden = sum(card.refresh(visibility) for card in self._cards)
        for card in self._cards:
            show_in_grid(card.outer, card.has_rows)
        self._place()
        is_left = focused_row is not None and focused(self._parent) is focused_row.editor.focus
        if focused_row is not None and is_left and not focused_row.is_shown:
            self._move_focus(focused_row)

    @property
    def shown_count(self) -> int:
        """Number of cards that are shown."""
        return len(self._shown())

    def set_columns(self, count: int) -> None:
        """Put the cards side by side in columns, in reading order from top to bottom."""
        if count != self._columns:
            self._columns = count
            self._place()

    def set_width(self, width: int) -> None:
        """Fit the cards to a width in pixels."""
        if width != self._context.room.width:
            self._context.room.width = width
            for card in self._made.values():
                card.fit()
            self.refresh()

    @property
    def has_cards(self) -> bool:
        """Whether the page has settings with the chosen variants."""
        return bool(self._cards)

    def row(self, path: str) -> Row | None:
        """Return the row of a setting, even if hidden; None if it is not on this page."""
        matches = (card.row(path) for card in self._cards)
        return next((row for row in matches if row is not None), None)

    def list_card(self, path: str) -> ListCard | None:
        """Return the list at a path; None if it is not on this page."""
        lists = (list_card for card in self._cards for list_card in card.lists)
        return next((list_card for list_card in lists if list_card.setting.path == path), None)

    def reveal(self, path: str) -> Row | None:
        """Show a setting even if its level hides it, and return its row."""
        self._revealed.add(path)
        for card in self._cards:
            for list_card in card.lists:
                list_card.unfold(path)
        self.refresh()
        return self.row(path)

    def commit(self) -> None:
        """Write everything typed to the draft now."""
        for row in list(self._rows()):
            row.commit()

    def _rows(self) -> Iterator[Row]:
        for card in self._cards:
            yield from card.all_rows()

    def _arrange(self, variants: Variants) -> None:
        """Place the cards of the chosen variants."""
        self._variants = variants
        groups = groups_in(self._plan, variants)
        before, self._cards = self._cards, []
        for group in groups:
            card = self._card(group)
            card.arrange(group)
            self._cards.append(card)
            for outer in card.outers:
                # The stacking order is the Tab order.
                outer.tk.call("raise", str(outer))
        for card in before:
            if card not in self._cards:
                card.detach()

    def _card(self, group: Group) -> GroupCard:
        if group.key not in self._made:
            titled = self._plan.is_titled and not group.is_one_list
            self._made[group.key] = GroupCard(self._context, self._parent, has_title=titled)
        return self._made[group.key]

    def _shown(self) -> list[tk.Widget]:
        """Return the visible cards in reading order."""
        outers = [outer for card in self._cards for outer in card.outers]
        hidden: list[tk.Widget] = [card.outer for card in self._cards if not card.has_rows]
        lists = (one for card in self._cards for one in card.lists)
        hidden += [one.outer for one in lists if not one.is_shown]
        return [outer for outer in outers if outer not in hidden]

    def _place(self) -> None:
        """Place the visible cards in their columns, of about the same height."""
        outers = self._shown()
        placed = (self._columns, *outers)
        if placed == self._placed:
            return
        self._placed = placed
        gap = self._context.widgets.px(_GAP)
        while len(self._boxes) < self._columns and self._columns > 1:
            box = self._context.widgets.frame(self._parent, ground="window")
            box.grid_columnconfigure(0, weight=1)
            # Below the cards, which are placed in it.
            box.tk.call("lower", str(box))
            self._boxes.append(box)
        for index, box in enumerate(self._boxes):
            if index < self._columns > 1:
                left = gap if index else 0
                box.grid(row=self._line, column=index, sticky="new", padx=(left, 0))
            else:
                box.grid_forget()
        for index, (outer, column) in enumerate(zip(outers, self._split(outers), strict=True)):
            column_box = self._boxes[column] if self._columns > 1 else self._parent
            outer.grid(in_=column_box, row=self._line + index, column=0, sticky="ew", pady=(0, gap))

    def _split(self, outers: list[tk.Widget]) -> list[int]:
        """Return the column of each card, so that the columns are about equally high."""
        if self._columns == 1:
            return [0] * len(outers)
        self._parent.update_idletasks()
        heights = [outer.winfo_reqheight() for outer in outers]
        share, above, columns = sum(heights) / self._columns, 0.0, []
        for height in heights:
            columns.append(min(int((above + height / 2) / share), self._columns - 1))
            above += height
        return columns

    def _focused_row(self) -> Row | None:
        """Return the visible row that has the focus; None if there is none."""
        focus = focused(self._parent)
        is_here = focus is not None and str(focus).startswith(f"{self._parent}.")
        matches = (row for row in self._rows() if row.editor.focus is focus and row.is_shown)
        return next(matches, None) if is_here else None

    def _move_focus(self, hidden_row: Row) -> None:
        """Move the focus from a hidden row to its replacement or to the setting that hid it."""
        path = hidden_row.path
        row = self.row(path)
        others = [sibling_path(path, other) for other in hidden_row.setting.ui.only_with]
        for other in (*others, switch_path(hidden_row.setting, path)):
            if other and (row is None or not row.is_shown):
                row = self.row(other)
        while row is None or not row.is_shown:
            path = section_of(path)
            if not path:
                return
            row = self.row(f"{path}.{KIND}")
        row.editor.focus.focus_set()
