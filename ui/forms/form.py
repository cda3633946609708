"""A page's groups of settings as cards, with the rows that are to be seen now."""

import tkinter as tk
from collections.abc import Iterator
from tkinter import ttk

from ui.forms.fields import Group
from ui.forms.lists import ListCard
from ui.forms.row import LABEL_WIDTH, LINES, FormContext, Row


class GroupCard:
    """One section's settings on a card; lists of entries follow on cards of their own."""

    def __init__(
        self, context: FormContext, parent: tk.Misc, group: Group, *, has_title: bool
    ) -> None:
        kit = context.kit
        self._context = context
        self.outer, inner = kit.card(parent)
        self._frame: ttk.Frame = inner
        if has_title:
            kit.label(inner, group.title, style="Heading").grid(
                row=0, column=0, columnspan=4, sticky="w"
            )
            kit.label(inner, group.help, style="SmallDim", wrap=620).grid(
                row=1, column=0, columnspan=4, sticky="w", pady=(kit.px(2), kit.px(8))
            )
        inner.grid_columnconfigure(0, minsize=kit.px(10))
        inner.grid_columnconfigure(1, minsize=kit.px(LABEL_WIDTH))
        inner.grid_columnconfigure(2, weight=1)
        inner.grid_columnconfigure(3, minsize=kit.px(34))
        plain = [setting for setting in group.settings if setting.kind != "list"]
        self.rows = [Row(context, inner, setting) for setting in plain]
        for place, row in enumerate(self.rows):
            row.place(2 + place * LINES)
        self.lists = [
            ListCard(context, parent, setting)
            for setting in group.settings
            if setting.kind == "list" and setting.item is not None
        ]

    def refresh(self, *, with_advanced: bool, revealed: set[str]) -> int:
        """Shows the rows that are to be seen; how many are not."""
        draft = self._context.draft
        hidden = 0
        lead: Row | None = None
        led: list[Row] = []
        for row in self.rows:
            lead = row if row.begins_group else lead
            is_shown = (
                with_advanced
                or row.setting.ui.level == "basic"
                or row.path in revealed
                or not draft.is_default(row.path)
                or draft.problem(row.path) is not None
            )
            hidden += not is_shown
            if is_shown:
                row.show()
                led += [lead] if lead is not None else []
            else:
                row.hide()
        for row in self.rows:
            row.show_lead(is_shown=row in led)
        for part in self.lists:
            part.refresh(with_advanced=with_advanced)
        return hidden

    @property
    def has_rows(self) -> bool:
        """Whether there is anything to see on the card."""
        return any(row.editor.widget.winfo_manager() for row in self.rows)

    def all_rows(self) -> Iterator[Row]:
        """Every row, also those in lists."""
        yield from self.rows
        for part in self.lists:
            yield from part.rows()


class Form:
    """All cards of one page, in one column."""

    def __init__(
        self, context: FormContext, parent: tk.Misc, groups: tuple[Group, ...], *, line: int
    ) -> None:
        self._context = context
        self.with_advanced = False
        self.hidden = 0
        self._revealed: set[str] = set()
        # A page of one group has its title already.
        has_titles = len(groups) > 1
        self._cards = [GroupCard(context, parent, group, has_title=has_titles) for group in groups]
        gap = context.kit.px(14)
        for card in self._cards:
            card.outer.grid(row=line, column=0, sticky="ew", pady=(0, gap))
            line += 1
            for part in card.lists:
                part.outer.grid(row=line, column=0, sticky="ew", pady=(0, gap))
                line += 1
        self.refresh()

    def refresh(self) -> None:
        """Shows the draft as it is now."""
        self.hidden = 0
        for card in self._cards:
            self.hidden += card.refresh(with_advanced=self.with_advanced, revealed=self._revealed)
            if card.has_rows:
                card.outer.grid()
            else:
                card.outer.grid_remove()

    def row(self, path: str) -> Row | None:
        """The row of a setting; None if it is not on this page."""
        for card in self._cards:
            for row in card.all_rows():
                if row.path == path:
                    return row
        return None

    def reveal(self, path: str) -> Row | None:
        """Shows a setting even where its level would hide it."""
        self._revealed.add(path)
        self.refresh()
        return self.row(path)

    def commit(self) -> None:
        """Hands everything that was typed to the draft now."""
        for card in self._cards:
            for row in card.all_rows():
                row.commit()
