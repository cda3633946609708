"""Tools to paint a mask with, in two lines above it."""

import tkinter as tk
from collections.abc import Callable
from functools import partial
from tkinter import ttk
from typing import Literal

from ui.background.mask_images import MaskShown
from ui.editing.mask_painting import IGNORED, TRAINED, MaskPainting
from ui.editing.open_mask import OpenMask
from ui.widgets.button import Button
from ui.widgets.changes import on_change
from ui.widgets.flow import Flow
from ui.widgets.slider import Scale, labeled_slider
from ui.widgets.widgets import Widgets

Tool = Literal["brush", "erase", "fill"]
TOOLS: tuple[tuple[Tool, str, str], ...] = (
    ("brush", "Brush", "Marks what is trained (B); without a mask, all of it is"),
    ("erase", "Erase", "Marks what is not trained (E)"),
    ("fill", "Fill", "Fills an area as trained; with Shift as not trained (F)"),
)
Act = Callable[[MaskPainting], None]
_CHANGES: tuple[tuple[str, str, Act, str], ...] = (
    ("mask undo", "Undo", MaskPainting.undo, "Undoes a stroke (Ctrl+Z)"),
    ("mask redo", "Redo", MaskPainting.redo, "(Ctrl+Shift+Z)"),
    (
        "mask clear",
        "Clear",
        partial(MaskPainting.fill_all, value=IGNORED),
        "Marks all of it as not trained",
    ),
    (
        "mask all",
        "Train all",
        partial(MaskPainting.fill_all, value=TRAINED),
        "Marks all of it as trained",
    ),
    ("mask invert", "Invert", MaskPainting.invert, ""),
)
_SHOWN: dict[str, MaskShown] = {"Image and mask": "over", "Mask": "mask", "Image": "image"}
_SIZE = Scale("mask size", "Size {:.1f} %", (0.1, 20.0), start=4.0, by=1.0)
_OPACITY = Scale("mask opacity", "Opacity {:.0f} %", (5.0, 100.0), start=100.0, by=5.0)
_LOCKED = "There is no mask to paint."
_NOTHING = "Nothing to undo."
_NO_MASK = "This image has no mask file; all of it is trained."


class MaskTools:
    """The chosen tool with its size and opacity, and buttons; all choices outlive the widgets.

    Args:
        do: Called with what changes the mask.
        remove: Called to remove the mask file.
        redraw: Called when something else of the image and its mask is to be shown.
        move: Called with 1 or -1 to go to the next or previous image.
        leave: Called to go back to the grid.
    """

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        *,
        do: Callable[[Act], object],
        remove: Callable[[], None],
        redraw: Callable[[], None],
        move: Callable[[int], None],
        leave: Callable[[], object],
    ) -> None:
        self._widgets = widgets
        self._buttons: dict[str, Button] = {}
        box, flow = self._make_line(parent)
        for tool, text, about in TOOLS:
            self._add(box, flow, f"mask {tool}", text, partial(self.choose, tool), about)
        (size, self._size), (opacity, self._opacity) = (
            labeled_slider(widgets, box, scale) for scale in (_SIZE, _OPACITY)
        )
        self._shown = widgets.kept.variable(box, "mask shown", next(iter(_SHOWN)))
        shown = ttk.Combobox(
            box, textvariable=self._shown, values=list(_SHOWN), state="readonly", width=14
        )
        shown.configure(font="OneTrainerBody")
        widgets.name(shown, "mask shown")
        on_change(self._shown, box, redraw)
        for widget in (size, opacity, shown):
            flow.add(widget)
        box, flow = self._make_line(parent)
        for name, text, act, about in _CHANGES:
            self._add(box, flow, name, text, partial(do, act), about)
        about = "Removes the mask file; can be undone"
        self._add(box, flow, "mask remove", "Remove mask", remove, about)
        ways: tuple[tuple[str, str, Callable[[], object]], ...] = (
            ("mask previous", "Previous", partial(move, -1)),
            ("mask next", "Next", partial(move, 1)),
            ("mask done", "Back to the images", leave),
        )
        for name, text, go in ways:
            flow.add(widgets.button(box, text, go, name=name).widget)
        self._use(widgets.kept.value("mask tool in use", "brush"))

    @property
    def opacity(self) -> float:
        """Opacity of what is painted, from 0 to 1."""
        return self._opacity.value / 100

    @property
    def size(self) -> float:
        """Diameter of the brush as a fraction of the longer side of the mask."""
        return self._size.value / 100

    @property
    def shown(self) -> MaskShown:
        """What of the image and its mask is to be shown."""
        return _SHOWN[self._shown.get()]

    def resize_brush(self, steps: int) -> None:
        """Make the brush larger, or smaller."""
        self._size.move(steps * _SIZE.by)

    def choose(self, tool: Tool) -> None:
        """Choose a tool, also for the images that are shown next."""
        self._widgets.kept.keep("mask tool", tool)
        self._use(tool)

    def propose(self, tool: Tool) -> None:
        """Use a tool until one is chosen."""
        self._use(self._widgets.kept.value("mask tool", tool))

    def enable(self, mask: OpenMask) -> None:
        """Enable what can be done with a mask."""
        painting, reasons = mask.painting, dict[str, str]()
        if painting is not None:
            reasons = {
                "mask undo": "" if painting.can_undo else _NOTHING,
                "mask redo": "" if painting.can_redo else "Nothing was undone.",
                "mask remove": "" if mask.has_file else _NO_MASK,
            }
        for name, button in self._buttons.items():
            button.enable(reasons.get(name, _LOCKED if painting is None else ""))

    def _use(self, tool: Tool) -> None:
        self.tool = tool
        self._widgets.kept.keep("mask tool in use", tool)
        for name, *_ in TOOLS:
            self._buttons[f"mask {name}"].set_kind("plain" if name == tool else "quiet")

    def _make_line(self, parent: tk.Misc) -> tuple[ttk.Frame, Flow]:
        line = self._widgets.frame(parent)
        line.pack(fill="x", pady=(0, self._widgets.px(6)))
        return line, Flow(self._widgets, line)

    def _add(
        self,
        box: ttk.Frame,
        flow: Flow,
        name: str,
        text: str,
        action: Callable[[], object],
        about: str,
    ) -> None:
        made = self._widgets.button(box, text, action, name=name).describe(about)
        flow.add(made.widget)
        self._buttons[name] = made
