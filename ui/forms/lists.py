"""A list of entries, such as the sample prompts: one card each, kept for the next that comes."""

import tkinter as tk
from collections.abc import Iterator
from tkinter import ttk

from onetrainer.config.base import Section
from onetrainer.config.fields import Setting, settings
from ui.forms.row import LINES, FormContext, Row


class Entry:
    """One entry's rows, with buttons that move, copy and remove it."""

    def __init__(self, card: "ListCard", context: FormContext, parent: tk.Misc, place: int) -> None:
        kit = context.kit
        self.frame = kit.frame(parent)
        line = tk.Frame(self.frame, height=1)
        kit.theme.paint(line, bg="line")
        line.pack(fill="x", pady=(0, kit.px(8)))
        head = kit.frame(self.frame)
        head.pack(fill="x")
        kit.label(head, f"{card.noun} {place + 1}", style="Bold").pack(side="left")
        actions = (
            ("Up", lambda: card.move(place, -1)),
            ("Down", lambda: card.move(place, 1)),
            ("Duplicate", lambda: card.duplicate(place)),
            ("Remove", lambda: card.remove(place)),
        )
        # Made in reading order, which is the Tab order, but packed from the right.
        buttons = []
        for text, command in actions:
            button = ttk.Button(head, text=text, style="QuietCard.TButton", command=command)
            kit.name(button, f"{text.lower()} {card.setting.path}.{place}")
            buttons.append(button)
        for button in reversed(buttons):
            button.pack(side="right")
        self.rows = self._make_rows(card, context, place)

    def _make_rows(self, card: "ListCard", context: FormContext, place: int) -> list[Row]:
        kit = context.kit
        item = card.setting.item
        inner = list(settings(item)) if item is not None else []
        words = kit.frame(self.frame)
        words.pack(fill="x")
        words.grid_columnconfigure(0, minsize=kit.px(10))
        words.grid_columnconfigure(1, minsize=kit.px(120))
        words.grid_columnconfigure(2, weight=1)
        words.grid_columnconfigure(3, minsize=kit.px(34))
        figures = kit.frame(self.frame)
        figures.pack(fill="x", pady=(kit.px(2), kit.px(10)))
        rows = []
        column = 0
        for line, setting in enumerate(inner):
            path = f"{card.setting.path}.{place}.{setting.path}"
            is_text = setting.kind == "text"
            parent = words
            if not is_text:
                parent = kit.frame(figures)
                parent.grid(row=0, column=column, sticky="nw", padx=(0, kit.px(10)))
                column += 1
            row = Row(context, parent, setting, path)
            row.place(line * LINES, is_stacked=not is_text)
            rows.append(row)
        return rows


class ListCard:
    """All entries of one list setting."""

    def __init__(self, context: FormContext, parent: tk.Misc, setting: Setting) -> None:
        self.setting = setting
        self._context = context
        kit = context.kit
        self.noun = setting.ui.label.rstrip("s").capitalize()
        outer, self._inner = kit.card(parent)
        self.outer = outer
        head = kit.frame(self._inner)
        head.pack(fill="x")
        kit.label(head, setting.ui.label, style="Heading").pack(side="left")
        add = kit.button(head, "＋ Add", self.add, name=f"add {setting.path}")
        add.widget.pack(side="right")
        kit.label(self._inner, setting.help, style="SmallDim", wrap=620).pack(
            anchor="w", pady=(kit.px(2), kit.px(8))
        )
        self._empty = kit.label(
            self._inner,
            f"There is none yet. “Add” makes the first {self.noun.lower()}.",
            style="Dim",
        )
        self._message = kit.label(self._inner, style="SmallDanger", wrap=620)
        self._entries: list[Entry] = []
        self._shown = 0

    def refresh(self, *, with_advanced: bool) -> None:
        """Shows as many entries as there are."""
        count = len(self._values())
        while len(self._entries) < count:
            self._entries.append(Entry(self, self._context, self._inner, len(self._entries)))
        self._show_count(count)
        for entry in self._entries[:count]:
            for row in entry.rows:
                self._refresh_row(row, with_advanced=with_advanced)
        problems = self._context.draft.problems_at(self.setting.path)
        if problems:
            words = "\n".join(f"⚠ {problem.what}. {problem.expected}" for problem in problems)
            self._message.configure(text=words)
            self._message.pack(anchor="w")
        else:
            self._message.pack_forget()

    def rows(self) -> Iterator[Row]:
        """The rows of all entries there are."""
        for entry in self._entries[: self._shown]:
            yield from entry.rows

    def add(self) -> None:
        """Adds an entry like the last one, but without its texts, and goes to it.

        What follows another setting does so again: a new sample has the size of training.
        """
        item = self.setting.item
        values = self._current()
        if item is None:
            return
        fresh = dict(item().model_dump(mode="json"))
        if values:
            texts = {s.path for s in settings(item) if s.kind == "text"}
            fresh |= {key: value for key, value in values[-1].items() if key not in texts}
        fresh |= self._begun(item)
        self._set([*values, fresh])
        self._entries[len(values)].rows[0].begin()

    def duplicate(self, place: int) -> None:
        """Adds a copy of an entry behind it."""
        values = self._current()
        self._set([*values[: place + 1], dict(values[place]), *values[place + 1 :]])
        self._entries[place + 1].rows[0].take_focus()

    def remove(self, place: int) -> None:
        """Removes an entry; can be undone."""
        values = self._current()
        self._set(values[:place] + values[place + 1 :])

    def move(self, place: int, by: int) -> None:
        """Moves an entry up or down."""
        values = self._current()
        target = place + by
        if 0 <= target < len(values):
            values[place], values[target] = values[target], values[place]
            self._set(values)

    def _begun(self, item: type[Section]) -> dict[str, object]:
        """What a new entry takes from other settings, as far as their values are right."""
        draft = self._context.draft
        wrong = {problem.path for problem in draft.value_errors}
        return {
            inner.path: draft.value(inner.ui.like)
            for inner in settings(item)
            if inner.ui.like and inner.ui.like not in wrong
        }

    def _values(self) -> list[dict[str, object]]:
        found = self._context.draft.value(self.setting.path)
        items = found if isinstance(found, list | tuple) else []
        return [item for item in items if isinstance(item, dict)]

    def _current(self) -> list[dict[str, object]]:
        """The values, with what is still being typed."""
        for row in self.rows():
            row.commit()
        return self._values()

    def _set(self, values: list[dict[str, object]]) -> None:
        self._context.draft.set(self.setting.path, values)

    def _show_count(self, count: int) -> None:
        if count == 0:
            self._empty.pack(anchor="w", pady=self._context.kit.px(4))
        else:
            self._empty.pack_forget()
        for place, entry in enumerate(self._entries):
            is_packed = bool(entry.frame.winfo_manager())
            if place < count and not is_packed:
                entry.frame.pack(fill="x")
            elif place >= count and is_packed:
                entry.frame.pack_forget()
                for row in entry.rows:
                    row.hide()
        self._shown = count

    def _refresh_row(self, row: Row, *, with_advanced: bool) -> None:
        draft = self._context.draft
        is_set = bool(draft.value(row.path))
        if with_advanced or row.setting.ui.level == "basic" or is_set:
            row.show()
        else:
            row.hide()
