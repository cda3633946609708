"""Table of images, such as all samples: a row for each prompt, a column for each step."""

import tkinter as tk
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ui.background.image_cache import ImageCache
from ui.theme.palette import Role
from ui.theme.theme import SMALL
from ui.widgets.drawing import Drawing
from ui.widgets.placing import show_in_grid
from ui.widgets.scroller import Scroller
from ui.widgets.widgets import Widgets, focused

_LINE = 15
_SCROLL = 20
_KEYS = {
    "Left": (0, -1),
    "Right": (0, 1),
    "Up": (-1, 0),
    "Down": (1, 0),
    "Home": (-(10**6), 0),
    "End": (10**6, 0),
    "Prior": (-2, 0),
    "Next": (2, 0),
}


@dataclass(frozen=True)
class TableLook:
    """Sizes in pixels at 96 dpi.

    Attributes:
        side: Of an image.
        head: Height of the titles of columns.
        columns: Number of columns that the table is wide; 0 if it fills its place.
        takes_keys: Whether keys choose an image; otherwise only the pointer does.
    """

    name: str
    side: int
    gap: int
    head: int
    height: int = 1
    columns: int = 0
    takes_keys: bool = False


@dataclass(frozen=True)
class Cell:
    """An image with lines below it, each with a text at either side."""

    path: Path
    lines: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Head:
    """Title of a row or column. end: what follows the title, which may be shortened."""

    title: str
    role: Role = "dim"
    end: str = ""


class ImageTable:
    """Canvas that draws only visible images; place `outer`.

    Args:
        chosen: Called with row and column of an image on a click, and on Return and Space.
        page: Is scrolled by the wheel where the table cannot be; None for none.
    """

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        images: ImageCache,
        chosen: Callable[[int, int], None],
        look: TableLook,
        page: Scroller | None = None,
    ) -> None:
        px = widgets.px
        self._widgets, self._images, self._page = widgets, images, page
        self._chosen, self._look = chosen, look
        self._columns: Sequence[Head] = ()
        self._rows: Sequence[Head] = ()
        self._cell: Callable[[int, int], Cell | None] = lambda *_: None
        self._lines = 0
        self._timer = ""
        self._current = (0, 0)
        self.outer = widgets.frame(parent)
        self._pitch = px(look.side + look.gap)
        self._drawing = Drawing(
            widgets,
            self.outer,
            self._redraw,
            width=max(1, look.columns * self._pitch),
            height=px(look.height),
            name=look.name,
            takes_keys=look.takes_keys,
        )
        self.canvas = self._drawing.canvas
        self._across = widgets.scrollbar(self.outer, self._xview, is_across=True)
        self._down = widgets.scrollbar(self.outer, self._yview)
        self.canvas.configure(
            xscrollcommand=self._across.set,
            yscrollcommand=self._down.set,
            xscrollincrement=self._pitch // 3,
            yscrollincrement=px(_SCROLL),
        )
        self.outer.grid_rowconfigure(0, weight=1)
        self.outer.grid_columnconfigure(0, weight=1)
        self.canvas.grid(row=0, column=0, sticky="nsew")
        self._across.grid(row=1, column=0, sticky="nsew")
        self._down.grid(row=0, column=1, sticky="nsew")
        self.canvas.bind("<Button-1>", self._clicked)
        if look.takes_keys:
            for key, by in _KEYS.items():
                self.canvas.bind(f"<{key}>", partial(self._move, *by))
            for key in ("<Return>", "<KP_Enter>", "<space>"):
                self.canvas.bind(key, lambda _: self._choose())
        widgets.on_wheel[self.canvas] = self._on_wheel

    def show(
        self,
        rows: Sequence[Head],
        columns: Sequence[Head],
        cell: Callable[[int, int], Cell | None],
        current: tuple[int, int] | None = None,
        *,
        lines: int = 0,
    ) -> None:
        """Show images by row and column, and the last columns if there are more than before.

        cell: Returns the image of a row and column; called for visible ones only. current: the
        marked image; None for the one before. lines: Below each image.
        """
        is_longer = len(columns) != len(self._columns)
        self._rows, self._columns, self._cell, self._lines = rows, columns, cell, lines
        self._go(*(current or self._current))
        self._fit()
        if is_longer:
            self.canvas.xview_moveto(1.0)
        self._redraw()

    def draw(self) -> None:
        """Draw the visible part."""
        drawing, canvas, px, look = self._drawing, self.canvas, self._widgets.px, self._look
        drawing.begin()
        if not self._columns:
            return
        height, left, top = self._row_height(), canvas.canvasx(0), canvas.canvasy(0)
        first, upper = (
            max(0, int(left // self._pitch)),
            max(0, int((top - px(look.head)) // height)),
        )
        last = min(len(self._columns), int((left + drawing.width) // self._pitch) + 1)
        lower = min(len(self._rows), int((top + drawing.height) // height) + 1)
        for row in range(upper, lower):
            head, y = self._rows[row], px(look.head) + row * height
            room = drawing.width - px(look.gap) - self._widgets.theme.measure(head.end, SMALL)
            item = drawing.text(left + 1, y + px(2), head.title, head.role, room=room)
            if head.end:
                drawing.text(canvas.bbox(item)[2] - 1, y + px(2), head.end, head.role)
            for column in range(first, last):
                self._draw_cell(self._cell(row, column), *self._corner(row, column))
        if top > 0:
            drawing.box(left, top, left + drawing.width, top + px(look.head), "card")
        for column in range(first, last):
            head, x = self._columns[column], column * self._pitch
            if look.columns:
                drawing.text(x + 1, top, head.title, head.role)
            else:
                drawing.text(x + px(look.side) // 2, top, head.title, head.role, anchor="n")
        if self._rows and (not look.takes_keys or focused(canvas) is canvas):
            x, y = self._corner(*self._current)
            half = px(look.side) // 2
            drawing.square(x + half, y + half, px(look.side) - 2, outline="accent")

    def _draw_soon(self) -> None:
        """Draw once for all images that have come meanwhile."""
        if not self._timer:
            self._timer = self.canvas.after_idle(self._draw_now)

    def _draw_now(self) -> None:
        self._timer = ""
        self.draw()

    def _draw_cell(self, cell: Cell | None, x: int, y: int) -> None:
        if cell is None:
            return
        drawing, px, side = self._drawing, self._widgets.px, self._widgets.px(self._look.side)
        image = self._images.get(cell.path, side, side, self._draw_soon)
        drawing.image((cell.path, side), image, x + side // 2, y + side // 2, side)
        for line, (name, figure) in enumerate(cell.lines):
            foot = y + side + px(2) + line * px(_LINE)
            drawing.text(x + side, foot, figure, anchor="ne")
            room = side - px(4) - self._widgets.theme.measure(figure, SMALL)
            drawing.text(x, foot, name, "dim", room=room)

    def _row_height(self) -> int:
        px, look = self._widgets.px, self._look
        return px(look.head + 2 + look.side + look.gap) + self._lines * px(_LINE)

    def _corner(self, row: int, column: int) -> tuple[int, int]:
        """Return the upper left corner of an image."""
        heads = self._widgets.px(self._look.head) + self._widgets.px(self._look.head + 2)
        return column * self._pitch, row * self._row_height() + heads

    def _whole(self) -> tuple[int, int]:
        height = self._widgets.px(self._look.head) + len(self._rows) * self._row_height()
        return max(1, len(self._columns) * self._pitch), max(1, height)

    def _fit(self) -> None:
        width, height = self._whole()
        self.canvas.configure(scrollregion=(0, 0, width, height))
        has_size = self._drawing.height > 1
        show_in_grid(self._across, width > self._drawing.width and has_size)
        show_in_grid(self._down, height > self._drawing.height and has_size)

    def _redraw(self) -> None:
        """Scroll to the column of the marked image, and draw."""
        self._fit()
        left, width = self._current[1] * self._pitch, self._whole()[0]
        over = left + self._pitch - self._drawing.width
        if left < self.canvas.canvasx(0):
            self.canvas.xview_moveto(left / width)
        elif over > self.canvas.canvasx(0):
            self.canvas.xview_moveto(over / width)
        self.draw()

    def _go(self, row: int, column: int) -> None:
        rows, columns = len(self._rows), len(self._columns)
        self._current = max(0, min(row, rows - 1)), max(0, min(column, columns - 1))

    def _move(self, rows: int, columns: int, _: object) -> str:
        self._go(self._current[0] + rows, self._current[1] + columns)
        if self._page is not None:
            self._page.show(self.canvas)
        top, whole = self._current[0] * self._row_height(), self._whole()[1]
        over = top + self._widgets.px(self._look.head) + self._row_height() - self._drawing.height
        if top < self.canvas.canvasy(0):
            self.canvas.yview_moveto(top / whole)
        elif over > self.canvas.canvasy(0):
            self.canvas.yview_moveto((over + _SCROLL) / whole)
        self._redraw()
        return "break"

    def _choose(self) -> str:
        if self._rows and self._columns:
            self._chosen(*self._current)
        return "break"

    def _clicked(self, event: "tk.Event[tk.Canvas]") -> str:
        column = int(self.canvas.canvasx(event.x) // self._pitch)
        below_head = self.canvas.canvasy(event.y) - self._widgets.px(self._look.head)
        row = int(below_head // self._row_height())
        if 0 <= column < len(self._columns) and 0 <= row < len(self._rows):
            self._go(row, column)
            self._choose()
        # Otherwise the click would move the focus.
        return "break"

    def _xview(self, *arguments: str) -> None:
        self.canvas.xview(*arguments)
        self.draw()

    def _yview(self, *arguments: str) -> None:
        self.canvas.yview(*arguments)
        self.draw()

    def _on_wheel(self, steps: int) -> None:
        """Scroll the table, and the page once the table is at its end."""
        first, last = self.canvas.yview()
        if (steps < 0 and first > 0) or (steps > 0 and last < 1):
            self.canvas.yview_scroll(3 * steps, "units")
            self.draw()
        elif self._page is not None:
            self._page.scroll_by(steps)
        elif first <= 0 and last >= 1:
            self.canvas.xview_scroll(steps, "units")
            self.draw()
