"""Button that the Tab key reaches and whose tooltip says why it is disabled."""

import time
import tkinter as tk
from collections.abc import Callable
from typing import Literal

import customtkinter

from ui.theme.palette import Role
from ui.theme.theme import Theme, pair
from ui.widgets.tooltip import Tooltip

ButtonKind = Literal["primary", "plain", "danger", "quiet"]
Command = Callable[[], object]

_RING = 2
_ROOM = 13
# Longer than the interval of a double click.
_IGNORE_CLICKS_S = 0.5
_BUTTON_COLORS: dict[ButtonKind, tuple[Role, Role, Role]] = {
    "primary": ("fill", "fill_hover", "on_fill"),
    "plain": ("raised", "hover", "text"),
    "danger": ("danger_fill", "danger_fill", "on_fill"),
    "quiet": ("card", "raised", "text"),
}


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
        height: int = 30,
    ) -> None:
        face, hover, text_role = _BUTTON_COLORS[kind]
        self._ground = ground
        self._kind: ButtonKind = kind
        self._face: Role = ground if kind == "quiet" else face
        self._command = command
        self._theme = theme
        self._text_role = text_role
        self.reason = ""
        self._min_width = width
        self._ignores_clicks_until = 0.0
        self.widget = customtkinter.CTkButton(
            parent,
            text=text,
            width=width or self._width(text),
            height=height,
            corner_radius=6,
            border_width=_RING,
            border_spacing=3,
            fg_color=pair(self._face),
            bg_color=pair(ground),
            hover_color=pair(hover),
            border_color=pair(self._face),
            text_color=pair(text_role),
            text_color_disabled=pair("dim"),
            font=theme.ctk_font(),
            command=self._call,
        )
        self._help = ""
        self._tooltip = Tooltip(self.widget, theme, lambda: self.reason or self._help)
        focusable(self.widget, self._call, self._show_focus)

    def describe(self, text: str) -> "Button":
        """Set the tooltip and return the button."""
        self._help = text
        return self

    def set_text(self, text: str) -> None:
        """Change the label."""
        if self.widget.cget("text") != text:
            self.widget.configure(text=text, width=max(self._min_width, self._width(text)))

    def set_kind(self, kind: ButtonKind) -> None:
        """Change the appearance."""
        if kind != self._kind:
            face, hover, self._text_role = _BUTTON_COLORS[kind]
            self._kind, self._face = kind, self._ground if kind == "quiet" else face
            self.widget.configure(hover_color=pair(hover), text_color=pair(self._text_role))
            self._paint()

    def enable(self, reason: str = "") -> None:
        """Enable the button, or disable it for a reason."""
        if reason != self.reason:
            self.reason = reason
            self.widget.configure(state="disabled" if reason else "normal")
            self._paint()

    def _paint(self) -> None:
        shown = pair("raised" if self.reason else self._face)
        self.widget.configure(fg_color=shown, border_color=shown)

    def take_focus(self) -> None:
        """Move the keyboard focus to the button."""
        _canvas_of(self.widget).focus_set()

    def ignore_clicks(self) -> None:
        """Ignore clicks for a moment, because another button was here until now."""
        self._ignores_clicks_until = time.monotonic() + _IGNORE_CLICKS_S

    @property
    def is_enabled(self) -> bool:
        """Whether a click has an effect."""
        return not self.reason and time.monotonic() >= self._ignores_clicks_until

    def _width(self, text: str) -> int:
        """Return the width of the label plus padding, in pixels at 96 dpi."""
        return round(self._theme.measure(text) / self._theme.scale) + 2 * _ROOM

    def _call(self) -> None:
        if self.is_enabled:
            self._command()
        elif self.reason:  # by a key: customtkinter passes on no click then
            self._tooltip.show_below()

    def _show_focus(self, has_focus: bool) -> None:
        self._paint()
        if not has_focus:
            self._tooltip.hide()
        else:
            ring: Role = "accent" if self._text_role != "on_fill" else "text"
            self.widget.configure(border_color=pair(ring))


def focusable(widget: tk.Misc, press: Command, show: Callable[[bool], None]) -> tk.Canvas:
    """Let Tab reach a customtkinter widget, and Space and Return press it; return what has focus.

    customtkinter draws on an inner canvas, which it keeps out of the Tab order.
    `show` is called with whether the widget has the focus.
    """
    canvas = _canvas_of(widget)
    canvas.configure(takefocus=1)

    def pressed(_: "tk.Event[tk.Canvas]") -> str:
        press()
        return "break"

    for key in ("<space>", "<Return>", "<KP_Enter>"):
        canvas.bind(key, pressed)
    canvas.bind("<FocusIn>", lambda _: show(True))
    canvas.bind("<FocusOut>", lambda _: show(False))
    return canvas


def _canvas_of(widget: tk.Misc) -> tk.Canvas:
    return next(child for child in widget.winfo_children() if isinstance(child, tk.Canvas))
