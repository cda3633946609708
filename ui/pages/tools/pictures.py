"""The images from before and after, one over the other, side by side, or one at a time."""

import tkinter as tk
from collections.abc import Sequence
from pathlib import Path
from tkinter import ttk

from onetrainer.jobs.lora_requests import SIDES
from ui.context import Context
from ui.widgets.image_stage import ImageStage, Mode, Staged

_CHOICES: dict[str, tuple[Mode, tuple[int, ...]]] = {
    "Before and after": ("wipe", (1, 2)),
    "Side by side": ("beside", (1, 2)),
    "Before": ("one", (1,)),
    "After": ("one", (2,)),
    "Base model": ("one", (0,)),
}
"""How images are shown, and which of them, by their places in `SIDES`."""
_TITLES = dict(zip(SIDES, ("base model", "before", "after"), strict=True))
_HINT = (
    "A drag or Ctrl+arrows move the edge. Wheel or + and − zoom both, Shift+arrows move. Hold the"
    " button on “After” to see the one before."
)
_HEIGHT = 420


class Pictures:
    """What was generated with the base model, before and after; place `outer`."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        widgets, px = context.widgets, context.widgets.px
        self._paths: Sequence[Path] = ()
        self.outer = widgets.frame(parent)
        self._how = tk.StringVar(self.outer, next(iter(_CHOICES)))
        box = ttk.Combobox(
            self.outer,
            textvariable=self._how,
            values=list(_CHOICES),
            state="readonly",
            font="OneTrainerBody",
            width=20,
        )
        box.bind("<<ComboboxSelected>>", lambda _: self._draw())
        box.pack(anchor="w", pady=(px(12), px(8)))
        widgets.name(box, "tool compare how")
        self._stage = ImageStage(
            widgets,
            self.outer,
            context.images,
            name="tool images",
            shown=lambda: None,
            held=self._hold,
            takes_keys=True,
        )
        self._stage.canvas.configure(height=px(_HEIGHT))
        self._stage.canvas.pack(fill="x")
        self.hint = widgets.label(self.outer, _HINT, style="SmallDim")
        self.hint.pack(anchor="w", pady=(px(6), 0))

    def show(self, paths: Sequence[Path]) -> None:
        """Show the images of `SIDES`."""
        self._paths = paths
        self._draw()

    def _hold(self, is_held: bool) -> None:
        """Show the image from before while the button is held on another one."""
        mode, places = _CHOICES[self._how.get()]
        if mode == "one":
            self._stage.show(self._staged((1,) if is_held else places), "one")

    def _draw(self) -> None:
        mode, places = _CHOICES[self._how.get()]
        self._stage.show(self._staged(places), mode)

    def _staged(self, places: Sequence[int]) -> list[Staged]:
        return [Staged(self._paths[place], _TITLES[SIDES[place]]) for place in places]
