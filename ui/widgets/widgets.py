"""Widgets in the window's theme, so that pages need not know the toolkits.

customtkinter draws buttons, cards and progress bars, ttk everything dense. The Tab key does not
reach customtkinter's own widgets; it does reach the ones made here.
"""

import time
import tkinter as tk
from collections.abc import Callable
from tkinter import ttk
from typing import Literal
from weakref import WeakKeyDictionary, WeakSet

import customtkinter

from ui.background.threads import Jobs
from ui.theme.palette import Role
from ui.theme.theme import Theme, pair
from ui.widgets.switch import Switch, Switches
from ui.widgets.tooltip import Tooltip

ButtonKind = Literal["primary", "plain", "danger", "quiet"]
Command = Callable[[], object]

_RING = 2
_ROOM = 13
_CARD_PAD = 18
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
        kit: "Kit",
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
        self._kit = kit
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
            font=kit.theme.ctk_font(),
            command=self._call,
        )
        self._help = ""
        self._tooltip = Tooltip(self.widget, kit.theme, lambda: self.reason or self._help)
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
        if kind == self._kind:
            return
        face, hover, self._text_role = _BUTTON_COLORS[kind]
        self._kind, self._face = kind, self._ground if kind == "quiet" else face
        shown: Role = "raised" if self.reason else self._face
        self.widget.configure(
            fg_color=pair(shown),
            border_color=pair(shown),
            hover_color=pair(hover),
            text_color=pair(self._text_role),
        )

    def enable(self, reason: str = "") -> None:
        """Enable the button, or disable it for a reason."""
        if reason == self.reason:
            return
        self.reason = reason
        self.widget.configure(
            state="disabled" if reason else "normal",
            fg_color=pair("raised" if reason else self._face),
            border_color=pair("raised" if reason else self._face),
        )

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
        theme = self._kit.theme
        return round(theme.measure(text) / theme.scale) + 2 * _ROOM

    def _call(self) -> None:
        if self.is_enabled:
            self._command()

    def _show_focus(self, has_focus: bool) -> None:
        ring: Role = "accent" if self._text_role != "on_fill" else "text"
        ignore_clicks: Role = "raised" if self.reason else self._face
        self.widget.configure(border_color=pair(ring if has_focus else ignore_clicks))


class Kit:
    """Factory for widgets in the theme, and registry of named controls."""

    def __init__(self, theme: Theme, jobs: Jobs) -> None:
        self.theme = theme
        self.jobs = jobs
        self._switches = Switches(theme)
        self.named: dict[str, tk.Misc] = {}
        self.buttons: dict[str, Button] = {}
        self.with_problem: WeakSet[tk.Misc] = WeakSet()
        self.on_wheel: WeakKeyDictionary[tk.Misc, Callable[[int], None]] = WeakKeyDictionary()

    def px(self, length: float) -> int:
        """Convert pixels at 96 dpi to pixels of this screen."""
        return self.theme.px(length)

    def name(self, widget: tk.Misc, name: str) -> None:
        """Register a control by name, for tests and assistive tools."""
        self.named[name] = widget

    def name_button(self, button: Button, name: str) -> None:
        """Register a button by name."""
        self.name(button.widget, name)
        self.buttons[name] = button

    def named_within(self, box: tk.Misc) -> dict[str, tk.Misc]:
        """Return the named controls inside a widget."""
        inside = f"{box}."
        return {name: w for name, w in self.named.items() if str(w).startswith(inside)}

    def set_has_problem(self, widget: tk.Misc, is_troubled: bool) -> None:
        """Record whether a message about its value is shown below a control."""
        if is_troubled:
            self.with_problem.add(widget)
        else:
            self.with_problem.discard(widget)

    def button(
        self,
        parent: tk.Misc,
        text: str,
        command: Command,
        *,
        name: str = "",
        kind: ButtonKind = "plain",
        ground: Role = "card",
        width: int = 0,
    ) -> Button:
        """Create a button; `name` registers it."""
        made = Button(self, parent, text, command, kind=kind, ground=ground, width=width)
        if name:
            self.name_button(made, name)
        return made

    def label(
        self,
        parent: tk.Misc,
        text: str = "",
        *,
        style: str = "",
        ground: Role = "card",
        wrap: int = 0,
    ) -> ttk.Label:
        """Create a label. style: "Dim", "Small", "SmallDim", "Bold", "Heading", "Danger", …"""
        full = f"{style}.{ground.capitalize()}.TLabel".lstrip(".")
        label = ttk.Label(parent, text=text, style=full, justify="left")
        if wrap:
            label.configure(wraplength=self.px(wrap))
        return label

    def frame(self, parent: tk.Misc, *, ground: Role = "card") -> ttk.Frame:
        """Create an empty frame with a background color of the theme."""
        return ttk.Frame(parent, style=f"{ground.capitalize()}.TFrame")

    def card(
        self, parent: tk.Misc, *, on: Role = "window"
    ) -> tuple[customtkinter.CTkFrame, ttk.Frame]:
        """Create a card with rounded corners; return the frame to place and the frame to fill."""
        outer = customtkinter.CTkFrame(
            parent, corner_radius=10, fg_color=pair("card"), bg_color=pair(on), border_width=0
        )
        inner = self.frame(outer)
        inner.pack(fill="both", expand=True, padx=self.px(_CARD_PAD), pady=self.px(14))
        return outer, inner

    def switch(
        self, parent: tk.Misc, command: Command, *, text: str = "", ground: Role = "card"
    ) -> Switch:
        """Create a switch."""
        return Switch(self._switches, parent, command, text=text, ground=ground)

    def progress(
        self, parent: tk.Misc, *, ground: Role = "card", height: int = 8
    ) -> customtkinter.CTkProgressBar:
        """Create a progress bar at 0; its `set` takes 0 to 1."""
        bar = customtkinter.CTkProgressBar(
            parent,
            height=height,
            corner_radius=height // 2,
            border_width=0,
            fg_color=pair("raised"),
            progress_color=pair("fill"),
            bg_color=pair(ground),
        )
        bar.set(0)
        return bar


def focusable(widget: tk.Misc, press: Command, show: Callable[[bool], None]) -> None:
    """Let Tab reach a customtkinter widget, and Space and Return press it.

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


def _canvas_of(widget: tk.Misc) -> tk.Canvas:
    return next(child for child in widget.winfo_children() if isinstance(child, tk.Canvas))


def wrap_in_card(kit: Kit, width: int, *labels: ttk.Label) -> int:
    """Wrap labels to a card of a width in pixels, and return the width of a line.

    The width is passed in because a card that is as wide as its text would never become narrower.
    """
    room = max(120, width - 2 * kit.px(_CARD_PAD))
    for label in labels:
        label.configure(wraplength=room)
    return room


def while_visible(widget: tk.Misc, refresh: Callable[[], None]) -> Callable[[], None]:
    """Return a function that refreshes only while a widget is displayed."""

    def refresh_if_visible() -> None:
        if widget.winfo_ismapped():
            refresh()

    return refresh_if_visible


def focused(widget: tk.Misc) -> tk.Misc | None:
    """Return the widget that has the focus; None also for widgets that Tk creates itself.

    tkinter's own `focus_get` raises KeyError while the list of a combo box is open.
    """
    try:
        return widget.focus_get()
    except KeyError:
        return None
