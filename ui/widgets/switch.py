"""On/off switch: a round knob in a track, drawn with antialiasing, with a label next to it."""

import math
import tkinter as tk
from collections.abc import Callable
from tkinter import ttk

from ui.theme import smooth
from ui.theme.palette import Palette, Role
from ui.theme.smooth import Layer, Rows
from ui.theme.theme import Theme

_WIDTH, _HEIGHT = 40, 24
_TRACK = 10.0
_KNOB = 7.0
_RING = 1.5

Command = Callable[[], object]
State = tuple[bool, bool, bool, str, float]


class Switches:
    """Cache of switch images, shared by all switches of a window in the same state.

    It outlives the switches of one size of the window, as Tk keeps the images.
    """

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self._images: dict[State, str] = {}
        self._rows: dict[tuple[bool, bool, str, float], Rows] = {}

    def image(self, *, is_on: bool, has_focus: bool, has_label: bool, ground: Role) -> str:
        """Return the Tk name of the image for a state in the current colors."""
        palette, scale = self._theme.palette, self._theme.scale
        colors = f"{self._theme.mode} {ground}"
        state = (is_on, has_focus, has_label, colors, scale)
        if state not in self._images:
            kind = (is_on, has_focus, colors, scale)
            if kind not in self._rows:
                self._rows[kind] = paint(
                    palette, palette[ground], scale, is_on=is_on, has_focus=has_focus
                )
            rows = self._rows[kind]
            if has_label:
                rows = [row + [palette[ground]] * round(6 * scale) for row in rows]
            image = smooth.make(self._theme.root, len(rows[0]), len(rows))
            smooth.fill(self._theme.root, image, rows)
            self._images[state] = image
        return self._images[state]


class Switch:
    """Switch that is toggled by a click on it or its label, Space or Return; Tab reaches it."""

    def __init__(
        self,
        images: Switches,
        parent: tk.Misc,
        command: Command,
        *,
        text: str = "",
        ground: Role = "card",
    ) -> None:
        self._images = images
        self._command = command
        self._ground = ground
        self._is_on = False
        self._has_focus = False
        self.widget = ttk.Label(
            parent,
            text=text,
            compound="left" if text else "image",
            style=f"{ground.capitalize()}.TLabel",
            takefocus=True,
        )
        self.widget.bind("<Button-1>", lambda _: self._clicked())
        for key in ("<space>", "<Return>", "<KP_Enter>"):
            self.widget.bind(key, lambda _: self.toggle())
        self.widget.bind("<FocusIn>", lambda _: self._show_focus(True))
        self.widget.bind("<FocusOut>", lambda _: self._show_focus(False))
        self.widget.bind("<<ThemeChanged>>", lambda _: self._draw())
        self._draw()

    @property
    def is_on(self) -> bool:
        """Whether the switch is on."""
        return self._is_on

    def show(self, is_on: bool) -> None:
        """Show a value without calling the command."""
        if is_on != self._is_on:
            self._is_on = is_on
            self._draw()

    def toggle(self) -> str:
        """Toggle the switch, as a click does."""
        self.show(not self._is_on)
        self._command()
        return "break"

    def _clicked(self) -> str:
        self.widget.focus_set()
        return self.toggle()

    def say(self, text: str) -> None:
        """Change the label."""
        if self.widget.cget("text") != text:
            self.widget.configure(text=text)

    def _show_focus(self, has_focus: bool) -> None:
        self._has_focus = has_focus
        self._draw()

    def _draw(self) -> None:
        image = self._images.image(
            is_on=self._is_on,
            has_focus=self._has_focus,
            has_label=str(self.widget.cget("compound")) == "left",
            ground=self._ground,
        )
        self.widget.configure(image=image)


def paint(palette: Palette, ground: str, scale: float, *, is_on: bool, has_focus: bool) -> Rows:
    """Return the pixel colors of a switch, row by row."""
    width, height = round(_WIDTH * scale), round(_HEIGHT * scale)
    reach = width / 2 - height / 2
    knob = reach if is_on else -reach

    def layers(x: float, y: float) -> list[Layer]:
        to_line = math.hypot(max(0.0, abs(x) - reach), y)
        ring = [(to_line - height / 2, palette["accent"])] if has_focus else []
        return [
            *ring,
            (to_line - height / 2 + _RING * scale, ground),
            (to_line - _TRACK * scale, palette["fill"] if is_on else palette["border"]),
            (math.hypot(x - knob, y) - _KNOB * scale, palette["on_fill"]),
        ]

    return smooth.paint(width, height, ground, layers, is_mirrored=True)
