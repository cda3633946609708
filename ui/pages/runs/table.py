"""Table of runs with their newest samples."""

import tkinter as tk
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from tkinter import ttk
from typing import Literal

from ui.background.image_cache import ImageCache
from ui.messages.run_rows import RunRow
from ui.widgets.fitted_texts import fit_texts
from ui.widgets.widgets import Widgets

_COLUMNS: tuple[tuple[str, str, int, Literal["w", "e"]], ...] = (
    ("name", "Name", 124, "w"),
    ("kind", "Model", 116, "w"),
    ("state", "State", 126, "w"),
    ("length", "Steps", 92, "e"),
    ("best", "Validation", 76, "e"),
    ("reward", "Reward", 62, "e"),
    ("when", "Began", 128, "e"),
    ("difference", "Different from the run before", 190, "w"),
    ("tags", "Tags", 74, "w"),
)
_STRETCHED = "difference"
# Left out where the table is too narrow for all, the first one first.
_SPARED = ("tags", "kind", "difference", "reward", "best", "length")
_IMAGE, _IMAGE_COLUMN = 38, 58
_HEADING = 60  # more than the headings are high
_ROWS_AT_ONCE, _PAUSE_MS = 100, 5


class RunTable:
    """Table of runs; place `outer`.

    Args:
        chosen: Called when other rows are selected.
        opened: Called for a double click and the Return key.
        order_by: Called with the name of a column whose heading is clicked.
    """

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        images: ImageCache,
        *,
        chosen: Callable[[], None],
        opened: Callable[[], None],
        order_by: Callable[[str], None],
    ) -> None:
        self._widgets, self._images = widgets, images
        self._rows: dict[str, RunRow] = {}
        self._shown: list[str] = []
        self._made: set[str] = set()  # rows that the table has, seen or not
        self._unmade: Iterator[tuple[int, str]] = iter(())
        self._maker = ""
        self._photos: dict[str, tuple[object, object]] = {}
        self._timer = ""
        self.outer = widgets.frame(parent)
        names = [name for name, *_ in _COLUMNS]
        self.tree = tree = ttk.Treeview(self.outer, columns=names, selectmode="extended")
        tree.configure(style="Tall.Treeview", height=3)
        tree.column("#0", width=widgets.px(_IMAGE_COLUMN), stretch=False)
        for name, label, width, anchor in _COLUMNS:
            tree.heading(name, text=label, anchor=anchor, command=partial(order_by, name))
            tree.column(name, width=widgets.px(width), anchor=anchor, stretch=name == _STRETCHED)
        self._bar = widgets.scrollbar(self.outer, tree.yview)
        self._bar.pack(side="right", fill="y")
        tree.pack(side="left", fill="both", expand=True)
        tree.bind("<<TreeviewSelect>>", lambda _: chosen())
        for sequence in ("<Double-Button-1>", "<Return>"):
            tree.bind(sequence, lambda _: opened())
        tree.bind("<Control-a>", lambda _: tree.selection_set(tree.get_children()))
        tree.bind("<Configure>", lambda _: self._fit())
        tree.configure(yscrollcommand=self._scrolled)
        widgets.name(tree, "runs table")
        widgets.scroll_by_wheel(tree)

    @property
    def chosen(self) -> list[RunRow]:
        """The selected rows, in the order of the table."""
        selected = set(self.tree.selection())
        return [self._rows[key] for key in self._shown if key in selected]

    @property
    def shown(self) -> list[RunRow]:
        """The rows to be seen, in their order."""
        return [self._rows[key] for key in self._shown]

    def show(self, rows: Sequence[RunRow], shown: Sequence[RunRow]) -> None:
        """List rows. rows: All there are; shown: Those to be seen, in their order."""
        new = {str(row.path): row for row in rows}
        gone = [key for key in self._made if key not in new]
        if gone:
            self.tree.delete(*gone)
            self._made.difference_update(gone)
        for key in self._made:
            if self._rows[key] is not new[key]:
                self.tree.item(key, values=list(new[key].values.values()))
        self._rows, self._shown = new, [str(row.path) for row in shown]
        placed = tuple(key for key in self._shown if key in self._made)
        if placed != self.tree.get_children():
            self.tree.set_children("", *placed)
        hidden = set(self.tree.selection()) - set(self._shown)
        if hidden:
            self.tree.selection_remove(*hidden)
        self._unmade = enumerate(self._shown)
        self._make_some()
        self._fit()

    def _make_some(self) -> None:
        """Make rows that are seen for the first time, in pieces that delay no key."""
        if self._maker:
            self.tree.after_cancel(self._maker)
            self._maker = ""
        missing = ((at, key) for at, key in self._unmade if key not in self._made)
        for at, key in islice(missing, _ROWS_AT_ONCE):
            self.tree.insert("", at, iid=key, values=list(self._rows[key].values.values()))
            self._made.add(key)
        if len(self.tree.get_children()) < len(self._shown):
            self._maker = self.tree.after(_PAUSE_MS, self._make_some)
        self._show_visible_soon()

    def select(self, row: RunRow) -> None:
        """Select one row alone, if the table has it yet."""
        if str(row.path) not in self._made:
            return
        self.tree.selection_set(str(row.path))
        self.tree.focus(str(row.path))
        self.tree.see(str(row.path))

    def _scrolled(self, first: float, last: float) -> None:
        self._bar.set(first, last)
        self._show_visible_soon()

    def _show_visible_soon(self) -> None:
        if not self._timer:
            self._timer = self.tree.after_idle(self._show_visible)

    def _show_visible(self) -> None:
        """Give the visible rows their images, and texts in the width of the columns."""
        self._timer = ""
        side, tree = self._widgets.px(_IMAGE), self.tree
        first = next((y for y in range(self._widgets.px(_HEADING)) if tree.identify_row(y)), None)
        if first is None or not self._shown:
            return
        top = self._shown.index(tree.identify_row(first))
        visible = tree.winfo_height() // self._widgets.px(_IMAGE) + 1
        keys = [key for key in self._shown[top : top + visible] if key in self._made]
        for key in [key for key in self._photos if key not in keys]:
            if tree.exists(key):
                tree.item(key, image="")
            del self._photos[key]
        for key in keys:
            self._show_image(key, side)
        fit_texts(tree, self._widgets.theme, {key: self._rows[key].values for key in keys})

    def _show_image(self, key: str, side: int) -> None:
        record = self._rows[key].record
        if record.sample is None:
            return
        image = self._images.get(record.sample, side, side, self._show_visible_soon)
        if image is not None and self._photos.get(key, (None, None))[0] is not image:
            from PIL.ImageTk import PhotoImage

            self._photos[key] = image, PhotoImage(image, master=self.tree)
            self.tree.item(key, image=str(self._photos[key][1]))

    def _fit(self) -> None:
        """Leave out columns without a value, and those that a narrow table has no room for."""
        px = self._widgets.px
        has_rewards = any(row.record.summary.reward is not None for row in self._rows.values())
        widths = {name: px(width) for name, _, width, _ in _COLUMNS}
        shown = [name for name in widths if name != "reward" or has_rewards]
        room = self.tree.winfo_width() - px(_IMAGE_COLUMN)
        for name in _SPARED:
            if name in shown and sum(widths[each] for each in shown) > room:
                shown.remove(name)
        self.tree.configure(displaycolumns=shown)
        last = _STRETCHED if _STRETCHED in shown else "name"
        spare = room - sum(widths[each] for each in shown)
        for name in shown:
            self.tree.column(name, width=widths[name] + (max(0, spare) if name == last else 0))
        self._show_visible_soon()
