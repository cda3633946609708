"""The few kinds of widget that the window is made of, so that pages need not know the toolkits.

customtkinter makes what is seen as the shell (buttons, cards, progress), ttk what is
dense. customtkinter's own widgets cannot be reached with the Tab key; the ones made here can.
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

Kind = Literal["primary", "plain", "danger", "quiet"]
Command = Callable[[], object]

_RING = 2
_ROOM = 13
_CARD_PAD = 18
# Longer than the two presses of a double click are apart.
_REST_S = 0.5
_BUTTON_COLORS: dict[Kind, tuple[Role, Role, Role]] = {
    "primary": ("fill", "fill_hover", "on_fill"),
    "plain": ("raised", "hover", "text"),
    "danger": ("danger_fill", "danger_fill", "on_fill"),
    "quiet": ("card", "raised", "text"),
}


class Button:
    """A button that the Tab key reaches, and that says why it is disabled."""

    def __init__(
        self,
        kit: "Kit",
        parent: tk.Misc,
        text: str,
        command: Command,
        *,
        kind: Kind = "plain",
        ground: Role = "card",
        width: int = 0,
        height: int = 30,
    ) -> None:
        face, hover, words = _BUTTON_COLORS[kind]
        self._ground = ground
        self._kind: Kind = kind
        self._face: Role = ground if kind == "quiet" else face
        self._command = command
        self._kit = kit
        self._words = words
        self.reason = ""
        self._least_width = width
        self._rests_until = 0.0
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
            text_color=pair(words),
            text_color_disabled=pair("dim"),
            font=kit.theme.ctk_font(),
            command=self._call,
        )
        self._help = ""
        self._tooltip = Tooltip(self.widget, kit.theme, lambda: self.reason or self._help)
        focusable(self.widget, self._call, self._show_focus)

    def describe(self, text: str) -> "Button":
        """Gives the button a tooltip."""
        self._help = text
        return self

    def set_text(self, text: str) -> None:
        """Changes the words on it."""
        if self.widget.cget("text") != text:
            self.widget.configure(text=text, width=max(self._least_width, self._width(text)))

    def set_kind(self, kind: Kind) -> None:
        """Makes the button one of another kind."""
        if kind == self._kind:
            return
        face, hover, self._words = _BUTTON_COLORS[kind]
        self._kind, self._face = kind, self._ground if kind == "quiet" else face
        shown: Role = "raised" if self.reason else self._face
        self.widget.configure(
            fg_color=pair(shown),
            border_color=pair(shown),
            hover_color=pair(hover),
            text_color=pair(self._words),
        )

    def enable(self, reason: str = "") -> None:
        """Enables the button, or disables it for the reason given."""
        if reason == self.reason:
            return
        self.reason = reason
        self.widget.configure(
            state="disabled" if reason else "normal",
            fg_color=pair("raised" if reason else self._face),
            border_color=pair("raised" if reason else self._face),
        )

    def take_focus(self) -> None:
        """Gives the button the keyboard."""
        _face_of(self.widget).focus_set()

    def rest(self) -> None:
        """Takes no press for a moment, which was meant for what was in its place before."""
        self._rests_until = time.monotonic() + _REST_S

    @property
    def is_enabled(self) -> bool:
        """Whether it can be pressed."""
        return not self.reason and time.monotonic() >= self._rests_until

    def _width(self, text: str) -> int:
        """As wide as the words and some room; in pixels of a screen with 96 dots an inch."""
        theme = self._kit.theme
        return round(theme.measure(text) / theme.scale) + 2 * _ROOM

    def _call(self) -> None:
        if self.is_enabled:
            self._command()

    def _show_focus(self, has_focus: bool) -> None:
        ring: Role = "accent" if self._words != "on_fill" else "text"
        rest: Role = "raised" if self.reason else self._face
        self.widget.configure(border_color=pair(ring if has_focus else rest))


class Kit:
    """Makes widgets in the theme, and knows the important ones by name."""

    def __init__(self, theme: Theme, jobs: Jobs) -> None:
        self.theme = theme
        self.jobs = jobs
        self._switches = Switches(theme)
        self.named: dict[str, tk.Misc] = {}
        self.buttons: dict[str, Button] = {}
        self.with_problem: WeakSet[tk.Misc] = WeakSet()
        self.on_wheel: WeakKeyDictionary[tk.Misc, Callable[[int], None]] = WeakKeyDictionary()

    def px(self, length: float) -> int:
        """A length in pixels of this screen."""
        return self.theme.px(length)

    def name(self, widget: tk.Misc, name: str) -> None:
        """Gives a control the name by which tests, and one day screen readers, find it."""
        self.named[name] = widget

    def name_button(self, button: Button, name: str) -> None:
        """Gives one of the buttons made here a name."""
        self.name(button.widget, name)
        self.buttons[name] = button

    def named_within(self, box: tk.Misc) -> dict[str, tk.Misc]:
        """The controls with a name that lie in a widget."""
        inside = f"{box}."
        return {name: w for name, w in self.named.items() if str(w).startswith(inside)}

    def set_has_problem(self, widget: tk.Misc, is_troubled: bool) -> None:
        """Notes whether words about its value stand below a control."""
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
        kind: Kind = "plain",
        ground: Role = "card",
        width: int = 0,
    ) -> Button:
        """A button; its name is that of the control."""
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
        """Text. style: "Dim", "Small", "SmallDim", "Bold", "Heading", "Title", "Danger", …"""
        full = f"{style}.{ground.capitalize()}.TLabel".lstrip(".")
        label = ttk.Label(parent, text=text, style=full, justify="left")
        if wrap:
            label.configure(wraplength=self.px(wrap))
        return label

    def frame(self, parent: tk.Misc, *, ground: Role = "card") -> ttk.Frame:
        """An empty box in one of the grounds' colors."""
        return ttk.Frame(parent, style=f"{ground.capitalize()}.TFrame")

    def card(
        self, parent: tk.Misc, *, on: Role = "window"
    ) -> tuple[customtkinter.CTkFrame, ttk.Frame]:
        """A rounded box: the box to place, and its inside to fill."""
        outer = customtkinter.CTkFrame(
            parent, corner_radius=10, fg_color=pair("card"), bg_color=pair(on), border_width=0
        )
        inner = self.frame(outer)
        inner.pack(fill="both", expand=True, padx=self.px(_CARD_PAD), pady=self.px(14))
        return outer, inner

    def switch(
        self, parent: tk.Misc, command: Command, *, text: str = "", ground: Role = "card"
    ) -> Switch:
        """A switch that the Tab key reaches; turned by Space."""
        return Switch(self._switches, parent, command, text=text, ground=ground)

    def progress(
        self, parent: tk.Misc, *, ground: Role = "card", height: int = 8
    ) -> customtkinter.CTkProgressBar:
        """A progress bar at zero; `set` takes 0 to 1."""
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
    """Lets the Tab key reach a customtkinter widget, and Space and Return press it.

    customtkinter draws on a canvas inside of the widget, which it keeps out of the Tab order.
    """
    canvas = _face_of(widget)
    canvas.configure(takefocus=1)

    def pressed(_: "tk.Event[tk.Canvas]") -> str:
        press()
        return "break"

    for key in ("<space>", "<Return>", "<KP_Enter>"):
        canvas.bind(key, pressed)
    canvas.bind("<FocusIn>", lambda _: show(True))
    canvas.bind("<FocusOut>", lambda _: show(False))


def _face_of(widget: tk.Misc) -> tk.Canvas:
    return next(child for child in widget.winfo_children() if isinstance(child, tk.Canvas))


def wrap_in_card(kit: Kit, width: int, *labels: ttk.Label) -> int:
    """Breaks the lines of labels for a card of a width in pixels; gives the room for a line.

    The width is given, not measured: a card that is as wide as its words never becomes narrower.
    """
    room = max(120, width - 2 * kit.px(_CARD_PAD))
    for label in labels:
        label.configure(wraplength=room)
    return room


def focused(widget: tk.Misc) -> tk.Misc | None:
    """The widget with the keyboard; None also for those that Tk makes by itself.

    tkinter's own `focus_get` raises KeyError while the list of a combo box is open.
    """
    try:
        return widget.focus_get()
    except KeyError:
        return None
