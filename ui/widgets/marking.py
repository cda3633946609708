"""Several cells of a grid selected at once: by Ctrl and Shift with a click, or by keys."""

import tkinter as tk
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TypeVar

from ui.widgets.grid import Grid

Member = TypeVar("Member")
_MODIFIERS = 0x1 | 0x4  # Shift, Control


class _All(AbstractSet[int]):
    """All numbers below one: as a set, those of 100,000 cells would take 7 MB."""

    def __init__(self, count: int) -> None:
        self._numbers = range(count)

    def __contains__(self, number: object) -> bool:
        """Return whether a number is below the end."""
        return number in self._numbers

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers in order."""
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    @classmethod
    def _from_iterable(cls, it: Iterable[Member]) -> AbstractSet[Member]:
        """Return what an operation of sets gives."""
        return frozenset(it)


class Marking:
    """The marked cells of a grid, besides the one that is selected.

    Ctrl+click and Ctrl+Space mark one more or one less, Shift+click all up to the clicked one,
    Ctrl+A all; a plain click marks none.

    Args:
        changed: Called when the marks have changed.
    """

    def __init__(self, grid: Grid, changed: Callable[[], None]) -> None:
        self._grid = grid
        self._changed = changed
        self.marked: AbstractSet[int] = frozenset()  # replaced by others, never changed
        canvas = grid.canvas
        canvas.bind("<Control-Button-1>", lambda _: self._toggle(grid.below_pointer))
        canvas.bind("<Shift-Button-1>", lambda _: self._mark_to(grid.below_pointer))
        canvas.bind("<Control-space>", lambda _: self._toggle(grid.current))
        canvas.bind("<Control-a>", lambda _: self.mark(_All(grid.count)))
        canvas.bind("<ButtonRelease-1>", self._clicked)  # the grid takes the press

    def mark(self, marked: AbstractSet[int]) -> str:
        """Mark these, and no others."""
        if marked != self.marked:
            self.marked = marked
            self._grid.draw()
            self._changed()
        return "break"

    def clear(self) -> None:
        """Mark none."""
        self.mark(frozenset())

    @property
    def chosen(self) -> list[int]:
        """The marked cells in order; the selected one if none is marked."""
        one = [self._grid.current] if self._grid.current >= 0 else []
        return sorted(self.marked) or one

    def _clicked(self, event: "tk.Event[tk.Canvas]") -> None:
        if self.marked and not int(event.state) & _MODIFIERS:
            self.clear()

    def _toggle(self, index: int) -> str:
        if 0 <= index < self._grid.count:
            start = self.marked or {self._grid.current} - {-1, index}
            self.mark(start ^ {index})
        self._grid.take_focus()
        return "break"

    def _mark_to(self, index: int) -> str:
        if 0 <= index < self._grid.count:
            first, last = sorted((max(0, self._grid.current), index))
            self.mark(self.marked | set(range(first, last + 1)))
        self._grid.take_focus()
        return "break"
