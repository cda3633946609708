"""Grid of all images; only what is visible is drawn and decoded, however many there are."""

import tkinter as tk
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from ui.background.image_cache import load_fitting
from ui.context import Context
from ui.editing.image_list import ImageList
from ui.editing.image_rows import ImageRow
from ui.theme.palette import Role
from ui.widgets.grid import Box, Grid
from ui.widgets.marking import Marking
from ui.widgets.tooltip import Tooltip

_CELL = (108, 122)
_THUMB = 96


class Thumbnails:
    """Grid of the images that a filter shows; place `outer`.

    Args:
        chosen: Called with the index of the image in the list when another one is selected.
        marked: Called when other images are marked.
        opened: Called on Return, Space and double click.
    """

    def __init__(
        self,
        context: Context,
        parent: tk.Misc,
        *,
        chosen: Callable[[int], None],
        marked: Callable[[], None],
        opened: Callable[[], None],
    ) -> None:
        self._context, self._chosen = context, chosen
        self.images = ImageList()
        self.shown: Sequence[int] = ()
        widgets = context.widgets
        self.grid = Grid(
            widgets,
            parent,
            self._paint,
            lambda at: chosen(self.shown[at]),
            name="images",
            width=_CELL[0],
            height=_CELL[1],
            opened=lambda _: opened(),
        )
        self.grid.fills_current = False
        self.outer = self.grid.outer
        self._marking = Marking(self.grid, marked)
        Tooltip(self.grid.canvas, widgets.theme, self._name_below_pointer)

    @property
    def marks(self) -> AbstractSet[int]:
        """Places of the marked images among those that are shown."""
        return self._marking.marked

    @property
    def target(self) -> Sequence[int]:
        """Indices in the list of the marked images; of all that are shown if none is marked."""
        marks = self.marks
        if len(marks) in (0, len(self.shown)):
            return self.shown
        return [self.shown[at] for at in sorted(marks)]

    def mark(self, places: AbstractSet[int]) -> None:
        """Mark images by their places among those that are shown, and no others."""
        self._marking.mark(places)

    def clear_marks(self) -> bool:
        """Mark no image; return whether any was."""
        had_marks = bool(self._marking.marked)
        self._marking.clear()
        return had_marks

    def show(self, images: ImageList, shown: Sequence[int], current: int) -> None:
        """Show some images of a list, and select one by its index in the list.

        Marks stay if the same images are shown as before.
        """
        if shown != self.shown or images.rows.paths != self.images.rows.paths:
            self._marking.marked = frozenset()
        self.images, self.shown = images, shown
        at = shown.index(current) if current in shown else (0 if shown else -1)
        self.grid.show(len(shown), at)

    @property
    def current(self) -> int:
        """Index of the selected image in the list; -1 for none."""
        at = self.grid.current
        return self.shown[at] if 0 <= at < len(self.shown) else -1

    @property
    def row(self) -> ImageRow | None:
        """The selected image."""
        return self.images.rows[self.current] if self.current >= 0 else None

    def move(self, by: int) -> None:
        """Select a later image, or an earlier one."""
        self.grid.show(self.grid.count, self.grid.current + by)
        self._chosen(self.current)

    def _name_below_pointer(self) -> str:
        at = self.grid.below_pointer
        if not 0 <= at < len(self.shown):
            return ""
        row = self.images.rows[self.shown[at]]
        return f"{row.path}: {row.reason}" if row.reason else str(row.path)

    def _paint(self, at: int, box: Box, is_current: bool) -> None:
        row, px = self.images.rows[self.shown[at]], self._context.widgets.px
        drawing, side = self.grid.drawing, px(_THUMB)
        path = row.path
        make, key, image = partial(load_fitting, path, side, side), ("whole", path, side), None
        if not drawing.has(key):
            image = self._context.images.get_or_make(key, make, self.grid.draw_soon)
        x, y = box.left + box.width // 2, box.top + px(5) + side // 2
        is_marked = at in self._marking.marked
        if is_marked:
            drawing.box(box.left, box.top, box.right, box.bottom, "selected")
        drawing.image(key, image, x, y, side)
        if is_current or is_marked:
            half = side // 2 + px(1)
            width = px(3) if is_current else px(1)
            drawing.box(x - half, y - half, x + half, y + half, outline="accent", width=width)
        text, role = _state(row, is_read=self.images.is_complete)
        drawing.text(x, box.top + px(6) + side, text, role, anchor="n")


def _state(row: ImageRow, *, is_read: bool) -> tuple[str, Role]:
    """Return what is notable of an image, in a word or two."""
    if row.reason:
        return "unusable", "danger"
    if is_read and not row.has_caption:
        return "no caption", "warning"
    return ("mask" if row.mask else ""), "dim"
