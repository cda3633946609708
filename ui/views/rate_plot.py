"""The learning rate over the run, as the settings make it."""

import tkinter as tk
from typing import get_args

from onetrainer.config.schedule import ScheduleKind
from onetrainer.curves import lr_multiplier
from ui.context import Context
from ui.forms.fields import as_text

_WIDTH, _HEIGHT = 236, 64
_POINTS = 80


class RatePlot:
    """A small drawing below the facts; gone while the numbers are wrong."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        kit = context.kit
        self._label = kit.label(parent, style="SmallDim")
        self._canvas = tk.Canvas(
            parent,
            width=kit.px(_WIDTH),
            height=kit.px(_HEIGHT),
            highlightthickness=0,
            takefocus=0,
        )
        kit.theme.paint(self._canvas, bg="card")
        self._canvas.bind("<<ThemeChanged>>", lambda _: self.draw())
        self._drawn: tuple[object, ...] = ()

    def draw(self) -> None:
        """Draws the rate of the draft as it is now, unless that is drawn already."""
        draft, kit = self._context.draft, self._context.kit
        kind = next((k for k in get_args(ScheduleKind) if k == draft.value("schedule.kind")), None)
        steps, warmup = draft.value("training.steps"), draft.value("schedule.warmup_steps")
        rate = draft.value("optimizer.lr")
        wanted = (kind, steps, warmup, rate, kit.theme.mode)
        if wanted == self._drawn:
            return
        self._drawn = wanted
        is_right = isinstance(steps, int) and isinstance(warmup, int) and 0 < steps >= warmup >= 0
        if (
            kind is None
            or not is_right
            or not isinstance(steps, int)
            or not isinstance(warmup, int)
        ):
            self._label.pack_forget()
            self._canvas.pack_forget()
            return
        self._label.configure(text=f"Learning rate, up to {as_text(rate)}")
        self._label.pack(anchor="w", pady=(kit.px(12), kit.px(4)))
        self._canvas.pack(anchor="w")
        shares = [
            lr_multiplier(
                kind, step=place * (steps - 1) // _POINTS, steps=steps, warmup_steps=warmup
            )
            for place in range(_POINTS + 1)
        ]
        self._draw_line(shares)

    def _draw_line(self, shares: list[float]) -> None:
        kit, canvas = self._context.kit, self._canvas
        palette = kit.theme.palette
        width, height, pad = kit.px(_WIDTH), kit.px(_HEIGHT), kit.px(3)
        canvas.delete("all")
        canvas.create_line(0, height - pad, width, height - pad, fill=palette.line)
        line: list[float] = []
        for place, share in enumerate(shares):
            line += [width * place / _POINTS, pad + (1 - share) * (height - 2 * pad)]
        canvas.create_polygon(
            [0, height - pad, *line, width, height - pad], fill=palette.selected, outline=""
        )
        canvas.create_line(line, fill=palette.accent, width=kit.px(2))
