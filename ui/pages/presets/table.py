"""Table of presets, below headings or ordered by what they need."""

import tkinter as tk
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from tkinter import ttk
from typing import Literal

from onetrainer.messages.durations import format_duration
from onetrainer.messages.memory import format_memory
from onetrainer.presets.forecasts import PresetForecast
from ui.model.preset_rows import Order, PresetRow, arranged
from ui.widgets.fitted_texts import fit_texts
from ui.widgets.widgets import Widgets

_COLUMNS: tuple[tuple[str, str, int, Literal["w", "e"]], ...] = (
    ("name", "Preset", 122, "w"),
    ("purpose", "What it is for", 160, "w"),
    ("family", "Family", 58, "w"),
    ("method", "Method", 94, "w"),
    ("memory", "Memory", 68, "e"),
    ("time", "A step", 56, "e"),
)
_ORDER_OF: Mapping[str, Order] = {"memory": "Least memory first", "time": "Fastest first"}
_NARROW = 540
_LEAST_ROWS = 5
_HEADING = "heading "
_UNKNOWN, _COMING = "—", "…"


class PresetTable:
    """Table of presets; place `outer`.

    Args:
        choose: Called when another row is selected, also by the table itself.
        apply: Called for a double click and the Return key.
        order_by: Called when a column's heading is clicked.
    """

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        choose: Callable[[], None],
        apply: Callable[[], object],
        order_by: Callable[[Order], None],
    ) -> None:
        self._widgets = widgets
        self._rows: dict[str, PresetRow] = {}
        self._shown: tuple[object, ...] = ()
        self._chosen: PresetRow | None = None
        self._choose = choose
        self.outer = widgets.frame(parent)
        names = [name for name, *_ in _COLUMNS]
        self.tree = ttk.Treeview(self.outer, columns=names, show="headings", selectmode="browse")
        self.tree.configure(height=_LEAST_ROWS)
        for name, label, width, anchor in _COLUMNS:
            order_by_it = partial(order_by, _ORDER_OF.get(name, "By family"))
            self.tree.heading(name, text=label, anchor=anchor, command=order_by_it)
            px = widgets.px(width)
            self.tree.column(name, width=px, minwidth=px // 2, anchor=anchor, stretch=False)
        widgets.scrollbar_of(self.outer, self.tree).pack(side="right", fill="y")
        self.tree.pack(side="left", fill="both", expand=True)
        self.tree.bind("<<TreeviewSelect>>", lambda _: self._selected())
        self.tree.bind("<Configure>", self._fit)
        self.tree.bind("<Return>", lambda _: apply())
        self.tree.bind("<Double-Button-1>", lambda event: self._row_at(event) and apply())
        for key, by in (("<Down>", 1), ("<Up>", -1), ("<Next>", 8), ("<Prior>", -8)):
            self.tree.bind(key, partial(self.move, by))
        widgets.name(self.tree, "presets table")
        widgets.scroll_by_wheel(self.tree)

    @property
    def chosen(self) -> PresetRow | None:
        """The selected row; None if there is none."""
        return self._chosen

    @property
    def rows(self) -> list[PresetRow]:
        """The listed rows."""
        return list(self._rows.values())

    def show(
        self,
        rows: Sequence[PresetRow],
        order: Order,
        forecasts: Mapping[str, PresetForecast],
        current: Path | None,
        *,
        is_timing: bool = False,
    ) -> None:
        """List rows; the selected one stays, or the first is selected.

        current: Marked as open. is_timing: Whether missing times are on their way.
        """
        state = (tuple(rows), order, dict(forecasts), current, is_timing)
        if state == self._shown:
            return
        self._shown = state
        self._paint()
        self._rows = {str(row.path): row for row in arranged(rows, order, forecasts)}
        self.tree.delete(*self.tree.get_children())
        has_headings = order == "By family"
        for group, inner in groupby(self._rows.items(), lambda pair: pair[1].group):
            if has_headings:
                key = f"{_HEADING}{group}"
                self.tree.insert("", "end", iid=key, values=(group,), tags=("heading",))
            for key, row in inner:
                is_current = row.path == current
                tag = "problem" if row.problem else "current" if is_current else "row"
                values = _values(row, forecasts.get(row.digest), is_current=is_current)
                if is_timing and row.digest in forecasts and values[-1] == _UNKNOWN:
                    values = (*values[:-1], _COMING)
                self.tree.insert("", "end", iid=key, values=values, tags=(tag,))
        self._shorten()
        self.select(self._chosen.path if self._chosen else None)

    def select(self, path: Path | None) -> None:
        """Select the row of a file, or the first one if it is not listed."""
        key = str(path)
        if key not in self._rows:
            key = next(iter(self._rows), "")
        if key:
            self.tree.selection_set(key)
            self.tree.focus(key)
        self._set(self._rows.get(key))
        self._see()
        # Rows that were just listed are counted when Tk is idle.
        self.tree.after_idle(self._see)

    def _see(self) -> None:
        key = str(self._chosen.path) if self._chosen else ""
        if not (self.tree.winfo_exists() and self.tree.exists(key) and key):
            return
        self.tree.see(key)
        if key == next(iter(self._rows)):
            self.tree.yview_moveto(0)  # with its heading

    def move(self, by: int, _: object = None) -> str:
        """Select a row further down, or up."""
        keys = list(self._rows)
        if keys:
            at = keys.index(str(self._chosen.path)) if self._chosen else 0
            target = min(max(at + by, 0), len(keys) - 1)
            self.select(self._rows[keys[target]].path)
        return "break"

    def repaint(self) -> None:
        """Update the colors to the theme."""
        self._paint()

    def _selected(self) -> None:
        chosen = self.tree.selection()
        row = self._rows.get(chosen[0]) if chosen else None
        if row is None and chosen:  # a heading
            self.select(self._chosen.path if self._chosen else None)
        else:
            self._set(row)

    def _set(self, row: PresetRow | None) -> None:
        if row != self._chosen:
            self._chosen = row
            self._choose()

    def _row_at(self, event: "tk.Event[ttk.Treeview]") -> bool:
        return self.tree.identify_row(event.y) in self._rows

    def _paint(self) -> None:
        palette = self._widgets.theme.palette
        self.tree.tag_configure(
            "heading", font="OneTrainerSmall", foreground=palette["dim"], background=palette["card"]
        )
        self.tree.tag_configure("problem", foreground=palette["danger"])
        self.tree.tag_configure("current", foreground=palette["accent"])

    def _fit(self, event: "tk.Event[ttk.Treeview]") -> None:
        """Give the columns of text the width there is; a narrow table leaves one out."""
        px = self._widgets.px
        is_narrow = event.width < px(_NARROW)
        shown = [column for column in _COLUMNS if not (is_narrow and column[0] == "purpose")]
        self.tree.configure(displaycolumns=[name for name, *_ in shown])
        spare = event.width - sum(px(width) for _, _, width, _ in shown)
        stretched = {"name": 0.1, "purpose": 0.7, "method": 0.2}
        if is_narrow:
            stretched = {"name" if spare > 0 else "method": 1.0}
        for name, _, width, _ in shown:
            self.tree.column(name, width=px(width) + int(spare * stretched.get(name, 0.0)))
        self._shorten()
        self.tree.after_idle(self._see)

    def _shorten(self) -> None:
        """Shorten what rows are for to the width of its column, which Tk would cut anywhere."""
        texts = {key: {"purpose": _purpose(row)} for key, row in self._rows.items()}
        fit_texts(self.tree, self._widgets.theme, texts)


def _purpose(row: PresetRow) -> str:
    return "Cannot be read" if row.problem else row.purpose


def _values(
    row: PresetRow, forecast: PresetForecast | None, *, is_current: bool
) -> tuple[str, ...]:
    memory = format_memory(forecast.peak_bytes) if forecast else _UNKNOWN
    time = format_duration(forecast.seconds) if forecast and forecast.seconds else _UNKNOWN
    name = f"• {row.name}" if is_current else row.name
    return (name, _purpose(row), row.family, row.method, memory, time)
