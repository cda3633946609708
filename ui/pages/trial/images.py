"""The images of the page: a large one, a strip of all, and a grid while it is generated."""

import tkinter as tk
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tkinter import ttk

from ui.actions.sample_files import copy_image
from ui.context import Context
from ui.widgets.drag_source import DragSource
from ui.widgets.drawing import Drawing
from ui.widgets.placing import wrap_within

_MOST_SHOWN = 60
_THUMBNAIL = 84
_FRAME = 3  # of the chosen one, around it; two fit between two
_GAP = 4
_KEYS = "Left and Right  ·  Ctrl+C copies"


class TrialImages:
    """Images in the order in which they were generated, of which one is shown."""

    def __init__(self, context: Context, parent: ttk.Frame) -> None:
        self._context = context
        self._images: list[Path] = []
        self._shown = 0
        self._cells: dict[int, Path] = {}
        self._size: tuple[int, int] | None = None
        widgets, px = context.widgets, context.widgets.px
        self._drawing = Drawing(
            widgets, parent, self._draw, width=320, height=320, name="trial image", takes_keys=True
        )
        self._drawing.canvas.pack(fill="both", expand=True)
        height = px(_THUMBNAIL) + 2 * px(_FRAME)
        self._strip = Drawing(
            widgets, parent, self._draw_strip, width=320, height=height, name="trial strip"
        )
        self._strip.canvas.pack(fill="x", pady=(px(10), 0))
        self._strip.canvas.bind("<Button-1>", self._click)
        self._caption = widgets.label(parent, "", style="SmallDim")
        self._caption.pack(anchor="w", pady=(px(6), 0))
        wrap_within(parent, self._caption, margin=0)
        for key, by in (("<Left>", -1), ("<Right>", 1)):
            self._drawing.canvas.bind(key, partial(self._move, by))
        self._drawing.canvas.bind("<Button-1>", lambda _: self._drawing.canvas.focus_set())
        self._drawing.canvas.bind("<Control-c>", lambda _: self._copy())
        for canvas in (self._drawing.canvas, self._strip.canvas):
            DragSource(widgets, canvas, self._dragged).enable_soon()

    @property
    def shown(self) -> dict[str, object]:
        """How many images there are, which one is shown, and how many cells of a grid."""
        return {
            "images": len(self._images),
            "shown": self._shown,
            "cells": len(self._cells) if self._size else None,
        }

    def begin_grid(self, rows: int, columns: int) -> None:
        """Show the cells of a grid as they are generated."""
        self._size, self._cells = (rows, columns), {}
        self._draw()

    def end_grid(self) -> None:
        """Show single images again."""
        self._size = None
        self._draw()

    def list_folder(self, folder: Path) -> None:
        """Add the newest images of a folder that are not listed yet, and show the last."""
        found = sorted(folder.glob("*.png"))[-_MOST_SHOWN:] if folder.is_dir() else []
        known = {*self._images}
        self.add([path for path in found if path not in known])

    def add(self, paths: Sequence[Path], place: int | None = None) -> None:
        """Add images and show the last. place: That of a single one in the grid."""
        if paths:
            self._images = [*self._images, *paths][-_MOST_SHOWN:]
            self._shown = len(self._images) - 1
            if place is not None:
                self._cells[place] = paths[-1]
        self._draw()

    def _move(self, by: int, _event: object = None) -> None:
        if self._images:
            self._shown = (self._shown + by) % len(self._images)
            self._draw()

    def _copy(self) -> str:
        if self._images and self._size is None:
            copy_image(self._context, self._images[self._shown])
        return "break"

    def _dragged(self) -> list[Path]:
        return self._images[self._shown : self._shown + 1] if self._size is None else []

    def _click(self, event: "tk.Event[tk.Canvas]") -> None:
        index = self._first() + event.x // self._each()
        if index < len(self._images):
            self._shown = index
            self._draw()
        self._drawing.canvas.focus_set()

    def _each(self) -> int:
        return self._context.widgets.px(_THUMBNAIL) + 2 * self._context.widgets.px(_FRAME)

    def _first(self) -> int:
        """Return the first image of the strip, so that the shown one is on it."""
        room = max(1, self._strip.width // self._each())
        return max(0, min(self._shown, len(self._images) - room))

    def _draw(self) -> None:
        """Draw the shown image or the grid, and the strip of all."""
        drawing = self._drawing
        drawing.begin()
        self._draw_strip()
        width, height = drawing.width, drawing.height
        if self._size is not None:
            self._draw_cells(*self._size)
            return
        if not self._images:
            text = "Images appear here. Ctrl+Enter in the prompt generates."
            drawing.text(width // 2, height // 2, text, "dim", anchor="center", room=width)
            return
        path = self._images[self._shown]
        image = self._context.images.get(path, width, height, self._draw)
        if image is not None and width > _THUMBNAIL:
            drawing.image((path, width, height), image, width // 2, height // 2, 0)
        place = f"{self._shown + 1} of {len(self._images)}"
        self._caption.say(f"{place}  ·  {path.name}  ·  {_KEYS}  ·  in {path.parent}")

    def _draw_cells(self, rows: int, columns: int) -> None:
        """Draw the images of a grid at their places, and empty boxes for those to come."""
        drawing, gap = self._drawing, self._context.widgets.px(_GAP)
        side = max(1, min(drawing.width // columns, drawing.height // rows) - gap)
        for place in range(rows * columns):
            row, column = divmod(place, columns)
            x, y = column * (side + gap), row * (side + gap)
            drawing.box(x, y, x + side - 1, y + side - 1, outline="line", width=1)
            path = self._cells.get(place)
            image = self._context.images.get(path, side, side, self._draw) if path else None
            if image is not None:
                drawing.image((path, side), image, x + side // 2, y + side // 2, 0)
        self._caption.say(f"{len(self._cells)} of {rows * columns} images of the grid")

    def _draw_strip(self) -> None:
        px, first = self._context.widgets.px, self._first()
        side, frame = px(_THUMBNAIL), px(_FRAME)
        self._strip.begin()
        for place, path in enumerate(self._images[first:]):
            x, y = place * self._each() + frame + side // 2, frame + side // 2
            if x - side // 2 > self._strip.width:
                break
            image = self._context.images.get(path, side, side, self._draw_strip)
            if image is not None:
                self._strip.image((path, side), image, x, y, 0)
            if first + place == self._shown:
                self._strip.square(x, y, side + frame, outline="accent")
