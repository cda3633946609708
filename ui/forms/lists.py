"""List of entries, such as the sample prompts."""

import tkinter as tk
from collections.abc import Callable, Iterator

from onetrainer.config.fields import Setting
from ui.forms.entry import Entry
from ui.forms.row import FormContext, Row
from ui.messages.problems import problem_lines
from ui.model.new_entries import entry_noun, with_new_entry, with_unique_name
from ui.model.variants import entries_of
from ui.model.visible_settings import Visibility
from ui.widgets.button import Button
from ui.widgets.placing import show
from ui.widgets.widgets import focused

# Up to this number, foldable entries are open when a config is opened.
_MAX_OPEN = 2
_WRAP = 620


class ListCard:
    """All entries of a list setting, on a card of their own or inside another."""

    def __init__(
        self, context: FormContext, parent: tk.Misc, setting: Setting, *, is_inner: bool = False
    ) -> None:
        self.setting = setting
        self._context = context
        widgets = context.widgets
        # Entries with nested sections are long, so they can be folded.
        self.can_fold = any("." in inner.path for inner in entries_of(setting))
        self._actions: dict[str, Callable[[int], None]] = {
            "up": lambda index: self.move(index, -1),
            "down": lambda index: self.move(index, 1),
            "duplicate": self.duplicate,
            "remove": self.remove,
        }
        if self.can_fold:
            self._actions["fold"] = self.fold
        self._open: set[int] = set()
        self._openings = -1
        self.outer: tk.Widget
        if is_inner:
            self.outer = self._inner = widgets.frame(parent)
        else:
            self.outer, self._inner = widgets.card(parent)
        head = widgets.frame(self._inner)
        head.pack(fill="x", pady=(widgets.px(12) if is_inner else 0, 0))
        title = widgets.label(head, setting.ui.label, style="Bold" if is_inner else "Heading")
        title.pack(side="left")
        self.add_button = widgets.button(head, "+ Add", self.add, name=f"add {setting.path}")
        self.add_button.widget.pack(side="right")
        self._help = widgets.label(self._inner, setting.help_text, style="SmallDim")
        self._help.pack(anchor="w", pady=(widgets.px(2), widgets.px(8)))
        self._empty = widgets.label(
            self._inner,
            f"None yet. Choose “Add” to create a {entry_noun(setting).lower()}.",
            style="Dim",
        )
        self._proposal: Button | None = None
        if setting.path in context.proposals:
            label, propose = context.proposals[setting.path]
            name = f"propose {setting.path}"
            self._proposal = widgets.button(self._inner, label, propose, name=name)
        self._message = widgets.label(self._inner, style="SmallDanger")
        self._entries: list[Entry] = []
        self._shown = 0
        self.fit()

    def fit(self) -> None:
        """Fit texts and rows to the room that the form has now."""
        for label in (self._help, self._message):
            label.configure(wraplength=self._context.fitting(_WRAP))
        for entry in self._entries:
            for row in entry.rows:
                row.line = -1  # placed anew when it is shown

    @property
    def is_shown(self) -> bool:
        """Whether the list is on the page now."""
        return bool(self.outer.winfo_manager())

    def prepare(self, visibility: Visibility) -> Iterator[None]:
        """Create the entries that `refresh` will show, and yield after each."""
        self._open_new()
        for index in range(len(self._values())):
            self._entry(index).refresh(visibility, is_open=self.is_open(index))
            yield

    def refresh(self, visibility: Visibility, *, is_shown: bool = True) -> None:
        """Show the entries of the draft."""
        if not is_shown:
            self._shown = min(self._shown, len(self._values()))
            self.outer.grid_remove()
            return
        self.outer.grid()
        count = len(self._values())
        self._open_new()
        entries = [self._entry(index) for index in range(count)]
        self._show_count(count)
        for index, entry in enumerate(entries):
            entry.refresh(visibility, is_open=self.is_open(index))
        problems = self._context.draft.problems_at(self.setting.path)
        # Above the entries, which may be packed already.
        show(self._message, bool(problems), anchor="w", after=self._help)
        if problems:
            self._message.say(*problem_lines(problems))

    def rows(self) -> Iterator[Row]:
        """Yield the existing rows of all entries."""
        for entry in self._entries[: self._shown]:
            yield from entry.rows

    def row(self, path: str) -> Row | None:
        """Return the row of a setting of an entry, created if needed; None if there is none."""
        matches = (entry.rows.find(path) for entry in self._entries[: self._shown])
        return next((row for row in matches if row is not None), None)

    def is_open(self, index: int) -> bool:
        """Return whether an entry shows its settings rather than a summary."""
        return not self.can_fold or index in self._open

    def fold(self, index: int) -> None:
        """Fold or unfold an entry."""
        if index in self._open:
            self._current()  # saves what is being typed
        self._open ^= {index}
        self._context.draft.notify()

    def unfold(self, path: str) -> None:
        """Unfold the entry that a path belongs to, if it is in this list."""
        index = path.removeprefix(f"{self.setting.path}.").partition(".")[0]
        if path.startswith(f"{self.setting.path}.") and index.isdecimal():
            self._open.add(int(index))

    def add(self) -> None:
        """Add an entry and focus it.

        Settings that default to another one copy it: a new sample prompt has the training
        resolution.
        """
        if self.setting.item is None:
            return
        values, index = with_new_entry(self.setting, self._current(), self._initial_values())
        self._shift(index, 1)
        self._open.add(index)
        self._context.draft.set(self.setting.path, values)
        self._entries[index].first_row.begin_editing()

    def duplicate(self, index: int) -> None:
        """Add a copy after an entry."""
        values = self._current()
        copy = with_unique_name(self.setting, dict(values[index]), values)
        self._shift(index + 1, 1)
        self._open.add(index + 1)
        values.insert(index + 1, copy)
        self._context.draft.set(self.setting.path, values)
        self._entries[index + 1].first_row.take_focus()

    def remove(self, index: int) -> None:
        """Remove an entry and focus the remove button of the next; can be undone."""
        values = self._current()
        self._open.discard(index)
        self._shift(index + 1, -1)
        self._context.draft.set(self.setting.path, values[:index] + values[index + 1 :])
        if not self._shown:
            self.add_button.take_focus()
            return
        button = self._entries[min(index, self._shown - 1)].remove_button
        button.focus_set()
        self._context.show(button)

    def move(self, index: int, by: int) -> None:
        """Move an entry up or down."""
        values = self._current()
        target = index + by
        if 0 <= target < len(values):
            values[index], values[target] = values[target], values[index]
            swapped = {index: target, target: index}
            self._open = {swapped.get(each, each) for each in self._open}
            self._context.draft.set(self.setting.path, values)

    def _open_new(self) -> None:
        """Open the entries of a config that was loaded, if there are few."""
        if self._openings != self._context.draft.load_count:
            self._openings, count = self._context.draft.load_count, len(self._values())
            self._open = set(range(count)) if count <= _MAX_OPEN else set()

    def _entry(self, index: int) -> Entry:
        """Return an entry, created if it and those before it are needed for the first time."""
        while len(self._entries) <= index:
            number = len(self._entries)
            self._entries.append(
                Entry(self._context, self._inner, self.setting, number, self._actions)
            )
        return self._entries[index]

    def _shift(self, index: int, by: int) -> None:
        """Keep the entries from an index on folded or open as they move."""
        self._open = {each + by if each >= index else each for each in self._open}

    def _initial_values(self) -> dict[str, object]:
        """Return the values that a new entry copies from other, valid settings."""
        draft = self._context.draft
        wrong = {problem.path for problem in draft.value_errors}
        return {
            inner.path: draft.value(inner.ui.like)
            for inner in entries_of(self.setting)
            if inner.ui.like and inner.ui.like not in wrong
        }

    def _values(self) -> list[dict[str, object]]:
        matches = self._context.draft.value(self.setting.path)
        items = matches if isinstance(matches, list | tuple) else []
        return [item for item in items if isinstance(item, dict)]

    def _current(self) -> list[dict[str, object]]:
        """Return the values, including what is still being typed."""
        for row in self.rows():
            row.commit()
        return self._values()

    def _show_count(self, count: int) -> None:
        gap = self._context.widgets.px(4)
        show(self._empty, count == 0, anchor="w", pady=gap)
        if self._proposal is not None:
            show(self._proposal.widget, count == 0, anchor="w", pady=gap)
        for index, entry in enumerate(self._entries):
            is_packed = bool(entry.frame.winfo_manager())
            if index < count and not is_packed:
                entry.frame.pack(fill="x")
            elif index >= count and is_packed:
                # Such as when adding it is undone.
                if str(focused(entry.frame) or "").startswith(f"{entry.frame}."):
                    self.add_button.take_focus()
                entry.hide()
        self._shown = count
