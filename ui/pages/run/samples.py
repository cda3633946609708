"""Newest sample of each prompt, next to the loss."""

import tkinter as tk

from onetrainer.run.events import Sample
from ui.context import Context
from ui.progress.samples import SampleBook, thumbnail
from ui.widgets.thumbnails import Thumbnails

_SIDE = 124
# Smaller thumbnails are useless; rows that do not fit are only on the samples page.
_MIN_SIDE = 88
_GAP = 8
_WORDS = 20
_COLUMNS = 2


class NewestSamples:
    """Thumbnails; a click opens the sample on its page."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        kit = context.kit
        self.outer, inner = kit.card(parent)
        kit.label(inner, "Newest samples", style="Heading").pack(anchor="w", pady=(0, kit.px(8)))
        width = _COLUMNS * kit.px(_SIDE) + kit.px(_GAP)
        self._canvas = tk.Canvas(inner, width=width, height=50, highlightthickness=0, takefocus=0)
        kit.theme.paint(self._canvas, bg="card")
        self._thumbnails = Thumbnails(kit, self._canvas)
        self._canvas.pack(fill="both", expand=True)
        self._canvas.bind("<Configure>", lambda _: self._draw())
        self._canvas.bind("<<ThemeChanged>>", lambda _: self._draw())
        self._canvas.bind("<Button-1>", self._clicked)
        kit.name(self._canvas, "newest samples")
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
        canvas, kit = self._canvas, self._context.kit
        folder = self._context.session.folder
        self._thumbnails.begin()
        palette, px = kit.theme.palette, kit.px
        if not self._newest or folder is None:
            canvas.create_text(
                0,
                px(4),
                text="Samples appear here during training.",
                anchor="nw",
                width=px(240),
                font="OneTrainerBody",
                fill=palette.dim,
            )
            return
        side = self._side()
        for index, sample in enumerate(self._shown()):
            x, y = self._corner(index, side)
            path = thumbnail(folder.path, sample)
            image = self._context.images.get(path, side, side, self._draw)
            self._thumbnails.draw((path, side), image, x + side // 2, y + side // 2, side)
            canvas.create_text(
                x,
                y + side + px(3),
                text=f"step {sample.step:,}",
                anchor="nw",
                font="OneTrainerSmall",
                fill=palette.dim,
            )

    def _shown(self) -> list[Sample]:
        """Return as many samples as fit."""
        px = self._context.kit.px
        rows = max(1, self._canvas.winfo_height() // px(_MIN_SIDE + _WORDS + _GAP))
        return self._newest[: rows * _COLUMNS]

    def _side(self) -> int:
        """Return the largest thumbnail size at which all rows fit."""
        px = self._context.kit.px
        rows = max(1, -(-len(self._shown()) // _COLUMNS))
        room = self._canvas.winfo_height() // rows - px(_WORDS + _GAP)
        return max(px(_MIN_SIDE), min(px(_SIDE), room))

    def _corner(self, index: int, side: int) -> tuple[int, int]:
        px = self._context.kit.px
        row, column = divmod(index, _COLUMNS)
        return column * (side + px(_GAP)), row * (side + px(_WORDS + _GAP))

    def _clicked(self, event: "tk.Event[tk.Canvas]") -> None:
        side = self._side()
        for index, sample in enumerate(self._shown()):
            x, y = self._corner(index, side)
            if x <= event.x <= x + side and y <= event.y <= y + side:
                self._context.act.show_sample(sample.prompt_index, sample.step)
