"""Entry of a list: its rows, and the buttons that move, duplicate, fold and remove it."""

import tkinter as tk
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from tkinter import ttk

from onetrainer.config.fields import Setting
from onetrainer.json_file import Document
from ui.forms.row import LABEL_WIDTH, LINES, FormContext, Row, make_columns
from ui.forms.rows import Rows, Slot
from ui.messages.line_breaks import break_at_dots, shorten
from ui.model.new_entries import entry_noun, entry_summary, entry_title
from ui.model.variants import entries_of
from ui.model.visible_settings import Visibility
from ui.widgets.placing import show
from ui.widgets.widgets import Label

# Number of settings side by side; entries with nested sections have wider ones.
_MAX_COLUMNS, _OF_LONG, _OF_NARROW = 4, 3, 2
_NARROW = 120
_WRAP = 600
_TITLE_ROOM, _BUTTONS_ROOM = 390, 280
_INDENT = 34
_OPEN, _FOLDED = "–", "+"


class Entry:
    """Entry of a list. Rows are created when first needed, since most never are.

    Args:
        actions: What its buttons do with an index: "up", "down", "duplicate", "remove", and "fold"
            where entries can be folded.
    """

    def __init__(
        self,
        context: FormContext,
        parent: tk.Misc,
        setting: Setting,
        index: int,
        actions: Mapping[str, Callable[[int], None]],
    ) -> None:
        self._widgets = widgets = context.widgets
        self._context = context
        self._setting, self._actions = setting, actions
        self._index, self._path = index, f"{setting.path}.{index}"
        self.frame = widgets.frame(parent)
        widgets.divider(self.frame).pack(fill="x", pady=(0, widgets.px(8)))
        self._title = self._make_head()
        self._summary = widgets.label(self.frame, style="SmallDim")
        self._body = widgets.frame(self.frame)
        self._body.pack(fill="x")
        self.rows = Rows(context)
        self.rows.slots = self._make_slots()

    @property
    def first_row(self) -> Row:
        """First row, where editing starts."""
        return self.rows.ensure(self.rows.slots[0])

    def refresh(self, visibility: Visibility, *, is_open: bool) -> None:
        """Show the visible rows, numbers side by side."""
        self._show_head(is_open=is_open)
        show(self._body, is_open, fill="x")
        if not is_open:
            return
        shown = self.rows.refresh(visibility)
        self.rows.restore_tab_order()
        stacked = [slot.parent for slot in shown if slot.is_stacked]
        for slot in self.rows.slots:
            if slot.is_stacked and slot.parent not in stacked:
                slot.parent.tk.call("grid", "remove", str(slot.parent))
        for index, box in enumerate(stacked):
            columns = _OF_LONG if self._fold else _MAX_COLUMNS
            line, column = divmod(index, _OF_NARROW if self._context.is_narrow else columns)
            if isinstance(box, ttk.Frame):
                box.grid(row=line, column=column, sticky="nw", padx=(0, self._widgets.px(10)))

    def hide(self) -> None:
        """Remove the entry from the card; it is kept for reuse."""
        self.frame.pack_forget()
        for row in self.rows:
            row.hide()

    def _make_head(self) -> Label:
        widgets, head = self._widgets, self._widgets.frame(self.frame)
        head.pack(fill="x")
        # Created in reading order, which is the Tab order.
        self._fold: ttk.Button | None = None
        title = widgets.label(head, style="Bold")
        if "fold" in self._actions:
            self._fold = self._make_button(head, "fold", width=2)
            self._fold.pack(side="left", padx=(0, widgets.px(4)))
            title.bind("<Button-1>", lambda _: self._actions["fold"](self._index))
        title.pack(side="left")
        names = ("up", "down", "duplicate", "remove")
        buttons = [self._make_button(head, name, text=name.capitalize()) for name in names]
        for button in reversed(buttons):
            button.pack(side="right")
        self.remove_button = buttons[-1]
        return title

    def _make_button(
        self, head: tk.Misc, name: str, *, text: str = "", width: int = 0
    ) -> ttk.Button:
        button = ttk.Button(head, text=text, width=width or -1, style="QuietCard.TButton")
        button.configure(command=partial(self._actions[name], self._index))
        self._widgets.name(button, f"{name} {self._path}")
        return button

    def _show_head(self, *, is_open: bool) -> None:
        """Show the title, and a summary where the entry is folded."""
        title = f"{entry_noun(self._setting)} {self._index + 1}"
        if self._fold is None:
            self._title.say(title)
            return
        found = self._context.draft.value(self._path)
        values: Document = found if isinstance(found, dict) else {}
        name = entry_title(self._setting, values)
        full_title = f"{title} · {name}" if name else title
        in_bold = partial(self._widgets.theme.measure, font="OneTrainerBold")
        room = self._context.fitting(_TITLE_ROOM, taken=_BUTTONS_ROOM)
        self._title.say(shorten(full_title, room, in_bold))
        self._fold.configure(text=_OPEN if is_open else _FOLDED)
        gap = self._widgets.px(8)
        show(
            self._summary,
            not is_open,
            anchor="w",
            padx=(self._widgets.px(_INDENT), 0),
            pady=(0, gap),
        )
        if is_open:
            return
        problems = [p for p in self._context.draft.problems if p.path.startswith(f"{self._path}.")]
        error_count = sum(problem.severity == "error" for problem in problems)
        lines = [f"{error_count} to fix"] if error_count else []
        if problems and not error_count:
            lines = [f"{len(problems)} to check"]
        lines += entry_summary(self._setting, values) or ["Not filled in yet."]
        style = "SmallDanger" if error_count else "SmallWarning" if problems else "SmallDim"
        room, measure = self._context.fitting(_WRAP, taken=_INDENT), self._widgets.theme.measure
        self._summary.configure(wraplength=room)
        self._summary.say(break_at_dots("  ·  ".join(lines), room, measure), style)

    def _make_slots(self) -> list[Slot]:
        """Place all settings: text lines, then numbers side by side, then nested sections."""
        widgets = self._widgets
        inner = entries_of(self._setting)
        paired = side_by_side(inner)
        lines, figures = self._grid(_NARROW), widgets.frame(self._body)
        figures.pack(fill="x", pady=(widgets.px(2), widgets.px(10)))
        nested: dict[str, ttk.Frame] = {}
        slots: list[Slot] = []
        for line, setting in enumerate(inner):
            section = _section_of(setting, inner)
            is_stacked = setting.path in paired
            if is_stacked:
                parent = widgets.frame(figures)
            elif section:
                parent = nested.get(section) or self._grid(LABEL_WIDTH)
                nested[section] = parent
            else:
                parent = lines
            path = f"{self._path}.{setting.path}"
            slots.append(Slot(setting, path, parent, line * LINES, is_stacked))
        return slots

    def _grid(self, label: int) -> ttk.Frame:
        widgets = self._widgets
        grid = widgets.frame(self._body)
        grid.pack(fill="x")
        make_columns(widgets, grid, label_width=label)
        # Tk keeps the height of a frame whose last child is removed, so one child always stays.
        widgets.frame(grid).grid(row=0, column=0, sticky="n")
        return grid


def side_by_side(settings: Sequence[Setting]) -> frozenset[str]:
    """Return the paths of settings whose narrow editors are shown side by side below the others.

    This excludes choices that other settings depend on, which come first, and nested sections. A
    single one gets a line of its own.
    """
    leads = {other for s in settings for other in s.ui.only_with if "." not in s.path}
    figures = [
        s
        for s in settings
        if s.kind != "text"
        and not (s.kind == "choice" and s.path in leads)
        and not _section_of(s, settings)
    ]
    is_worth_it = sum(s.ui.level == "basic" for s in figures) > 1
    return frozenset(s.path for s in figures) if is_worth_it else frozenset()


def _section_of(setting: Setting, settings: Sequence[Setting]) -> str:
    """Return the nested section that a setting belongs to or enables; "" for none."""
    section, dot, _ = setting.path.partition(".")
    if dot:
        return section
    owned = setting.path.removeprefix("own_")
    has_section = owned != setting.path and any(s.path.startswith(f"{owned}.") for s in settings)
    return owned if has_section else ""
