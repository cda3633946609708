"""Button that the Tab key reaches and whose tooltip says why it is disabled."""

import time
import tkinter as tk
from collections.abc import Callable
from tkinter import ttk

from ui.theme.palette import Role
from ui.theme.rounded import ButtonKind, button_style
from ui.theme.theme import Theme
from ui.widgets.tooltip import Tooltip

Command = Callable[[], object]

_ROOM = 13
_HEIGHT = 30
# Longer than the interval of a double click.
_IGNORE_CLICKS_S = 0.5


class Button:
    """Button that the Tab key reaches and whose tooltip says why it is disabled."""

    def __init__(
        self,
        theme: Theme,
        parent: tk.Misc,
        text: str,
        command: Command,
        *,
        kind: ButtonKind = "plain",
        ground: Role = "card",
        width: int = 0,
    ) -> None:
        """width: the least, in pixels at 96 dpi."""
        self._ground = ground
        self._kind: ButtonKind = kind
        self._command = command
        self._theme = theme
        self.reason = ""
        self._min_width = theme.px(width)
        self._ignores_clicks_until = 0.0
        self.widget = ttk.Button(
            parent,
            text=text,
            style=button_style(theme.faces, kind, ground),
            padding=self._padding(text),
            command=self._call,
            takefocus=1,  # also while it is disabled, when a key shows the reason
        )
        self._help = ""
        self._tooltip = Tooltip(self.widget, theme, lambda: self.reason or self._help)
        bind_press(self.widget, self._call)
        self.widget.bind("<FocusOut>", lambda _: self._tooltip.hide())

    def describe(self, text: str) -> "Button":
        """Set the tooltip and return the button."""
        self._help = text
        return self

    def set_text(self, text: str) -> None:
        """Change the label."""
        if self.widget.cget("text") != text:
            self.widget.configure(text=text, padding=self._padding(text))

    def set_kind(self, kind: ButtonKind) -> None:
        """Change the appearance."""
        if kind != self._kind:
            self._kind = kind
            self.widget.configure(style=button_style(self._theme.faces, kind, self._ground))

    def enable(self, reason: str = "") -> None:
        """Enable the button, or disable it for a reason."""
        if bool(reason) != bool(self.reason):
            self.widget.state(["disabled" if reason else "!disabled"])
        self.reason = reason

    def take_focus(self) -> None:
        """Move the keyboard focus to the button."""
        self.widget.focus_set()

    def ignore_clicks(self) -> None:
        """Ignore clicks for a moment, because another button was here until now."""
        self._ignores_clicks_until = time.monotonic() + _IGNORE_CLICKS_S

    @property
    def is_enabled(self) -> bool:
        """Whether a click has an effect."""
        return not self.reason and time.monotonic() >= self._ignores_clicks_until

    def _padding(self, text: str) -> tuple[int, int, int, int]:
        """Return the room around a label: at the left, top, right and bottom."""
        px, width = self._theme.px, self._theme.measure(text)
        sides = max(2 * px(_ROOM), self._min_width - width)
        around = max(px(_HEIGHT) - self._theme.line_height(), 0)
        return sides // 2, around // 2, sides - sides // 2, around - around // 2

    def _call(self) -> None:
        if self.is_enabled:
            self._command()
        elif self.reason:  # by a key, since a click on a disabled button has no effect
            self._tooltip.show_below()


def bind_press(widget: ttk.Button, press: Command) -> None:
    """Let Space and Return press a button at once; Tk knows only Space, and waits after it."""

    def pressed(_: "tk.Event[ttk.Button]") -> str:
        press()
        return "break"

    for key in ("<space>", "<Return>", "<KP_Enter>"):
        widget.bind(key, pressed)
