"""Scrollable grid or list of cells of one size, drawn on a canvas.

Only visible cells are drawn. One cell is selected, by pointer or keyboard.
"""

import tkinter as tk
from collections.abc import Callable
from dataclasses import dataclass

from ui.widgets.drawing import Drawing
from ui.widgets.widgets import Widgets, can_scroll

_RING = 2
_WHEEL_PX = 60
_DRAW_AFTER_MS = 30  # images come in groups: each would otherwise be a drawing of its own


@dataclass(frozen=True)
class Box:
    """Position and size of a cell on the canvas, in pixels."""

    left: int
    top: int
    width: int
    height: int

    @property
    def right(self) -> int:
        """Right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> int:
        """Lower edge."""
        return self.top + self.height


Paint = Callable[[int, Box, bool], None]


class Grid:
    """Grid of cells that are painted on demand; place `outer`.

    Args:
        paint: Draws the cell with an index into a box of `drawing`; the last argument is true for
            the selected one.
        chosen: Called with the index when the user selects another cell.
        height: Height of a cell in pixels at 96 dpi.
        width: Width of a cell in pixels at 96 dpi; 0 fills the row, which makes the grid a list.
        opened: Called with the index on Return, Space and double click.
    """

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        paint: Paint,
        chosen: Callable[[int], None],
        *,
        name: str,
        height: int,
        width: int = 0,
        opened: Callable[[int], None] | None = None,
    ) -> None:
        self._widgets = widgets
        self._paint = paint
        self._chosen = chosen
        self._opened = opened
        # Whether the selected cell has a ground of its own.
        self.fills_current = True
        self._height, self._width = widgets.px(height), widgets.px(width)
        self.count = 0
        self.current = -1
        self._timer = ""
        self.outer = widgets.frame(parent)
        self.drawing = Drawing(widgets, self.outer, self._redraw, name=name)
        self.canvas = self.drawing.canvas
        widgets.theme.paint(self.canvas, highlightbackground="card", highlightcolor="accent")
        self.canvas.configure(highlightthickness=_RING, yscrollincrement=1, takefocus=1)
        self._bar = widgets.scrollbar(self.outer, self._yview)
        # The scrollbar always keeps its space, so that the width of the cells never changes.
        self._bar.pack(side="right", fill="y")
        self.canvas.configure(yscrollcommand=self._bar_set)
        self.canvas.pack(side="left", fill="both", expand=True)
        self._bind()

    def show(self, count: int, current: int) -> None:
        """Show `count` cells and select the one at index `current`; -1 selects none."""
        is_other = (count, current) != (self.count, self.current)
        self.count, self.current = count, current
        self._fit()
        if is_other:
            self._scroll_to_current()
        self.draw()

    def to_top(self) -> None:
        """Scroll to the first cell."""
        self.canvas.yview_moveto(0)
        self.draw()

    def draw(self) -> None:
        """Draw the visible cells."""
        canvas = self.canvas
        self.drawing.begin()
        if not self.count or canvas.winfo_width() <= 1:
            return
        columns = self._columns
        first = max(0, int(canvas.canvasy(0)) // self._height) * columns
        below = int(canvas.canvasy(canvas.winfo_height())) // self._height + 1
        for index in range(first, min(self.count, below * columns)):
            box = self._box(index)
            if self.fills_current and index == self.current:
                self.drawing.box(box.left, box.top, box.right, box.bottom, "selected")
            self._paint(index, box, index == self.current)

    def draw_soon(self) -> None:
        """Draw once for all images that have come or changed meanwhile."""
        if not self._timer:
            self._timer = self.canvas.after(_DRAW_AFTER_MS, self._draw_now)

    def take_focus(self) -> None:
        """Move the keyboard focus to the grid."""
        self.canvas.focus_set()

    @property
    def below_pointer(self) -> int:
        """Index of the cell below the pointer; -1 for none."""
        canvas = self.canvas
        x, y = canvas.winfo_pointerx(), canvas.winfo_pointery()
        return self._at(x - canvas.winfo_rootx(), y - canvas.winfo_rooty())

    @property
    def _columns(self) -> int:
        return max(1, self._room[0] // self._width) if self._width else 1

    @property
    def _room(self) -> tuple[int, int]:
        """Width and height inside the focus ring."""
        canvas = self.canvas
        return canvas.winfo_width() - 2 * _RING, canvas.winfo_height() - 2 * _RING

    def _box(self, index: int) -> Box:
        row, column = divmod(index, self._columns)
        room = max(1, self._room[0])
        width = min(self._width, room) if self._width else room
        return Box(column * width, row * self._height, width, self._height)

    def _bind(self) -> None:
        canvas = self.canvas
        canvas.bind("<Button-1>", self._clicked)
        canvas.bind("<Double-Button-1>", lambda event: self._clicked(event, is_double=True))
        canvas.bind("<Triple-Button-1>", lambda _: "break")  # must not open a second time
        steps_by_key: dict[str, Callable[[], int]] = {
            "<Left>": lambda: -1,
            "<Right>": lambda: 1,
            "<Up>": lambda: -self._columns,
            "<Down>": lambda: self._columns,
            "<Prior>": lambda: -self._columns * self._visible_rows,
            "<Next>": lambda: self._columns * self._visible_rows,
            "<Home>": lambda: -self.count,
            "<End>": lambda: self.count,
        }
        for key, by in steps_by_key.items():
            canvas.bind(key, self._mover(by))
        for key in ("<Return>", "<KP_Enter>", "<space>"):
            canvas.bind(key, lambda _: self._open())
        self._widgets.on_wheel[canvas] = self._on_wheel

    @property
    def _visible_rows(self) -> int:
        return max(1, self._room[1] // self._height)

    def _mover(self, by: Callable[[], int]) -> Callable[["tk.Event[tk.Canvas]"], str]:
        def moved(_: "tk.Event[tk.Canvas]") -> str:
            steps = by()
            wanted = self.current + steps
            if self.count and abs(steps) < self.count and not 0 <= wanted < self.count:
                # Up in the first row stays there instead of jumping to another column.
                wanted = self.current if abs(steps) == self._columns > 1 else wanted
            self._choose(min(max(wanted, 0), self.count - 1))
            return "break"

        return moved

    def _choose(self, index: int) -> None:
        if not 0 <= index < self.count:
            return
        is_other = index != self.current
        self.current = index
        self._scroll_to_current()
        self.draw()
        if is_other:
            self._chosen(index)

    def _open(self) -> str:
        if self._opened is not None and 0 <= self.current < self.count:
            self._opened(self.current)
        return "break"

    def _clicked(self, event: "tk.Event[tk.Canvas]", *, is_double: bool = False) -> str:
        self.canvas.focus_set()
        index = self._at(event.x, event.y)
        if index >= 0:
            self._choose(index)
            if is_double:
                self._open()
        # Otherwise the click would move the focus elsewhere.
        return "break"

    def _at(self, left: int, top: int) -> int:
        """Return the index of the cell at a point of the widget; -1 for none."""
        x, y = int(self.canvas.canvasx(left)), int(self.canvas.canvasy(top))
        first = max(0, y // self._height - 1) * self._columns
        for index in range(first, min(self.count, first + 3 * self._columns)):
            box = self._box(index)
            if 0 <= x - box.left < box.width and 0 <= y - box.top < box.height:
                return index
        return -1

    def _scroll_to_current(self) -> None:
        """Scroll until the selected cell is visible."""
        if not 0 <= self.current < self.count:
            return
        box, whole = self._box(self.current), self._whole()
        above, room = self.canvas.canvasy(_RING), self._room[1]
        if box.top < above or box.height > room:
            self.canvas.yview_moveto(box.top / whole)
        elif box.top + box.height > above + room:
            self.canvas.yview_moveto((box.top + box.height - room) / whole)

    def _whole(self) -> int:
        rows = -(-self.count // self._columns)
        return max(1, rows * self._height, self._room[1])

    def _fit(self) -> None:
        self.canvas.configure(scrollregion=(0, 0, self._room[0], self._whole()))

    def _draw_now(self) -> None:
        self._timer = ""
        if self.canvas.winfo_exists():
            self.draw()

    def _redraw(self) -> None:
        self._fit()
        self._scroll_to_current()
        self.draw()

    def _yview(self, *arguments: str) -> None:
        self.canvas.yview(*arguments)
        self.draw()

    def _on_wheel(self, steps: int) -> bool:
        """Scroll; return whether it could be scrolled any further."""
        is_free = can_scroll(self.canvas, steps)
        if is_free:
            self.canvas.yview_scroll(steps * self._widgets.px(_WHEEL_PX), "units")
            self.draw()
        return is_free

    def _bar_set(self, *_: float) -> None:
        # Tk may call this again while the scrollbar is drawn, so the arguments can be outdated.
        self._bar.set(*self.canvas.yview())
