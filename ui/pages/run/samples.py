"""Newest sample of each prompt, next to the loss."""

import re
import tkinter as tk
from collections.abc import Iterator

from onetrainer.run.events import Sample
from ui.context import Context
from ui.progress.samples import SampleBook, thumbnail
from ui.theme.theme import BODY
from ui.widgets.drawing import Drawing

_SIDE = 124
# Smaller thumbnails are useless; rows that do not fit are only on the samples page.
_MIN_SIDE = 88
_GAP = 8
_WORDS = 20
_COLUMNS = 2
_VARIANT = re.compile(r"\((strength \S+)\)")


class NewestSamples:
    """Thumbnails; a click opens the sample on its page."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets = context.widgets
        self.outer, inner = widgets.card(parent)
        widgets.label(inner, "Newest samples", style="Heading").pack(
            anchor="w", pady=(0, widgets.px(8))
        )
        width = _COLUMNS * widgets.px(_SIDE) + widgets.px(_GAP)
        self._drawing = Drawing(
            widgets, inner, self._draw, width=width, height=50, name="newest samples"
        )
        self._drawing.canvas.pack(fill="both", expand=True)
        self._drawing.canvas.bind("<Button-1>", self._clicked)
        self._newest: list[Sample] = []
        self._state = (-1, -1)

    def refresh(self) -> None:
        """Show the newest samples; do nothing if there are no new ones."""
        session = self._context.session
        key = (session.generation, len(session.state.samples))
        if key != self._state:
            self._state = key
            self._newest = SampleBook.of(session.state.samples).newest()
            self._draw()

    def _draw(self) -> None:
        drawing, px = self._drawing, self._context.widgets.px
        folder = self._context.session.folder
        drawing.begin()
        if not self._newest or folder is None:
            text = "Samples appear here during training."
            item = drawing.text(0, px(4), text, "dim", font=BODY)
            drawing.canvas.itemconfigure(item, width=px(240))
            return
        for sample, x, y, side in self._places():
            path = thumbnail(folder.path, sample)
            image = self._context.images.get(path, side, side, self._draw)
            drawing.image((path, side), image, x + side // 2, y + side // 2, side)
            # What a prompt's samples differ in stands at the end of their title.
            variant = _VARIANT.search(sample.prompt)
            text = f"step {sample.step:,}" + (f" · {variant[1]}" if variant else "")
            drawing.text(x, y + side + px(3), text, "dim", room=side)

    def _places(self) -> Iterator[tuple[Sample, int, int, int]]:
        """Yield as many samples as fit: left and upper edge, and side."""
        px, height = self._context.widgets.px, self._drawing.height
        rows = max(1, height // px(_MIN_SIDE + _WORDS + _GAP))
        shown = self._newest[: rows * _COLUMNS]
        # The largest size at which all rows fit.
        room = height // max(1, -(-len(shown) // _COLUMNS)) - px(_WORDS + _GAP)
        side = max(px(_MIN_SIDE), min(px(_SIDE), room))
        for index, sample in enumerate(shown):
            row, column = divmod(index, _COLUMNS)
            yield sample, column * (side + px(_GAP)), row * (side + px(_WORDS + _GAP)), side

    def _clicked(self, event: "tk.Event[tk.Canvas]") -> None:
        for sample, x, y, side in self._places():
            if x <= event.x <= x + side and y <= event.y <= y + side:
                self._context.act.show_sample(sample.prompt_index, sample.step)
