"""What a model found, as images with their texts or masks, and what writing it would change."""

import tkinter as tk
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from onetrainer.captioning.changes import Fate
from onetrainer.captioning.messages import FATES, fate_texts
from onetrainer.jobs.caption_request import MaskWriting
from ui.background.image_cache import load_fitting
from ui.context import Context
from ui.messages.line_breaks import shorten, shorten_start
from ui.model.captioning import Review, Row
from ui.theme.palette import Role
from ui.theme.theme import BOLD
from ui.widgets.grid import Box, Grid
from ui.widgets.tooltip import Tooltip

if TYPE_CHECKING:
    from PIL.Image import Image

_ROW, _THUMB, _MAX_LINES = 112, 96, 4
_LEAST = 240
"""Height of the list where the window is too low for all of the page."""
_TONES: dict[Fate, Role] = {"failed": "danger", "changed": "warning", "new": "accent"}
_SHADE = 0.25
"""How much light is left of what a mask leaves out."""
_NONE = "What a model finds appears here. Nothing is written before you press Write."


class ResultList:
    """The list of results; place `outer`."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        self._review: Review | None = None
        widgets, px = context.widgets, context.widgets.px
        self.outer = widgets.frame(parent)
        self.summary = widgets.label(self.outer, _NONE, style="Dim", wrap=440)
        self.summary.pack(anchor="w", pady=(0, px(8)))
        self._grid = Grid(
            widgets,
            self.outer,
            self._paint,
            lambda _: None,
            name="caption results",
            height=_ROW,
            opened=self._open,
        )
        self._grid.canvas.configure(height=px(_LEAST))
        self._grid.outer.pack(fill="both", expand=True)
        Tooltip(self._grid.canvas, widgets.theme, self._whole_text)

    @property
    def rows(self) -> tuple[Row, ...]:
        """What is listed."""
        return self._review.rows if self._review else ()

    def show(self, review: Review | None) -> None:
        """Show results; None for none."""
        before, self._review = self._review, review
        is_other_job = before is None or review is None or before.job.path != review.job.path
        self._grid.drawing.forget()
        count = len(self.rows)
        current = 0 if is_other_job else min(self._grid.current, count - 1)
        self._grid.show(count, current if count else -1)
        self.summary.say(_summary(review) if review and count else _NONE, "Dim")

    def _open(self, index: int) -> None:
        self._context.act.open_path(self.rows[index].image)

    def _whole_text(self) -> str:
        index = self._grid.below_pointer
        return self.rows[index].text if 0 <= index < len(self.rows) else ""

    def _paint(self, index: int, box: Box, is_current: bool) -> None:
        """Draw an image with its mask, if any; its name, what becomes of it, and its text."""
        row, widgets, drawing = self.rows[index], self._context.widgets, self._grid.drawing
        px, measure = widgets.px, widgets.theme.measure
        left, side = box.left + px(8), px(_THUMB)
        key = (row.image, row.found, side, self._review.writing if self._review else None)
        image = self._context.images.get_or_make(
            key, partial(self._make, row, side), self._grid.draw_soon
        )
        drawing.image(key, image, left + side // 2, box.top + px(8) + side // 2, side)
        left, right, y = left + side + px(12), box.right - px(10), box.top + px(9)
        fate = FATES[row.fate]
        drawing.text(right, y, fate, _TONES.get(row.fate, "dim"), anchor="ne")
        room = right - left - measure(fate) - px(12)
        name = shorten_start(row.name, room, partial(measure, font=BOLD))
        drawing.text(left, y, name, font=BOLD)
        y, lines = y + px(20), _lines(row)
        room = round((right - left) * _MAX_LINES / len(lines) * 0.94)
        for text, role in lines:
            item = drawing.text(left, y, shorten(text, room, measure), role)
            self._grid.canvas.itemconfigure(item, width=right - left)
            y = self._grid.canvas.bbox(item)[3] + px(1)

    def _make(self, row: Row, side: int) -> "Image | None":
        """Return an image as it is shown; in a thread."""
        image = load_fitting(row.image, side, side)
        writing = self._review.writing if self._review else None
        if image is None or row.found is None or not isinstance(writing, MaskWriting):
            return image
        return _shaded(image, row.found, writing)


def _lines(row: Row) -> list[tuple[str, Role]]:
    """Return what is said of an image: what there is, and what was found."""
    if row.fate == "failed":
        return [(row.text, "danger")]
    if row.fate == "kept" and row.before:
        return [(f"Yours: {row.before}", "text"), (f"Found: {row.text}", "dim")]
    if row.fate == "changed" and row.before:
        return [(f"Now: {row.before}", "dim"), (f"New: {row.text}", "text")]
    return [(row.text, "text")]


def _shaded(image: "Image", found: Path, writing: MaskWriting) -> "Image":
    """Return an image that is dark where its mask is black."""
    from PIL import Image

    from onetrainer.captioning.masks import mask_image
    from onetrainer.files.inside import open_ordinary
    from onetrainer.images.image_file import ImageError, open_image

    try:
        with open_ordinary(found) as file, open_image(file, found) as opened:
            mask = mask_image(opened, image.size, writing)
    except (OSError, ImageError):
        return image
    rgb = image.convert("RGB")
    return Image.composite(rgb, rgb.point(lambda value: value * _SHADE), mask)


def _summary(review: Review) -> str:
    """Return what writing would do, in a line."""
    parts = [f"{text} {count:,}" for text, count in fate_texts(review.fates)]
    missing = review.total - len(review.rows)
    return "  ·  ".join([*parts, *([f"Not described yet {missing:,}"] if missing else [])])
