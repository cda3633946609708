"""Widgets in the window's theme, so that pages need not know the toolkits.

They are ttk's; buttons, cards and bars have rounded corners by styles of `ui.theme.rounded`.
"""

import tkinter as tk
from collections.abc import Callable
from tkinter import ttk
from typing import Literal
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from ui.background.threads import Jobs
from ui.theme.palette import Role
from ui.theme.rounded import (
    PROGRESS,
    SCROLLBAR,
    ButtonKind,
    card_style,
    progress_style,
    scrollbar_style,
)
from ui.theme.theme import BODY, Theme
from ui.widgets.button import Button, Command
from ui.widgets.kept import Kept
from ui.widgets.placing import wrap_within
from ui.widgets.switch import Switch, Switches

_STRIPE = 3
CARD_PAD = 18
# What a line that Tk wraps may be longer than was asked for: most of a character.
_BEYOND = 8
_PAGE_MARGIN = 28


class Label(ttk.Label):
    """Label whose text and style change together.

    wraps: whether `wrap_in_card` applies to it, with this many pixels less than the card: `inset`.
    """

    ground = "Card"
    wraps = False
    inset = 0

    def say(self, text: str, style: str | None = None) -> None:
        """Show a text, in another style if there is one: "SmallDim", or "" for the usual one."""
        self.configure(text=text)
        if style is not None:
            self.configure(style=f"{style}.{self.ground}.TLabel".lstrip("."))

    @property
    def text(self) -> str:
        """The shown text; "" while the label is hidden."""
        return str(self.cget("text")) if self.winfo_manager() else ""


class Progress(ttk.Progressbar):
    """Progress bar with round ends."""

    def __init__(self, parent: tk.Misc, *, style: str, height: int) -> None:
        """height: In pixels; a bar that is shorter has no room for its ends."""
        super().__init__(parent, style=style, maximum=1)
        self._height, self._fraction = height, 0.0
        self.bind("<Configure>", lambda _: self.set(self._fraction))

    def set(self, fraction: float) -> None:
        """Show a fraction: 0 to 1."""
        self._fraction = fraction
        least = min(1.0, self._height / max(1, self.winfo_width()))
        self.configure(value=max(fraction, least) if fraction else 0.0)


class Widgets:
    """Factory for widgets in the theme, and registry of named controls."""

    def __init__(self, theme: Theme, jobs: Jobs, kept: Kept | None = None) -> None:
        """kept: outlives these widgets; None keeps nothing longer."""
        self.theme = theme
        self.jobs = jobs
        self.kept = kept or Kept()
        self.is_dragging = False  # files of this window, which are not to be dropped on it
        self._switches = self.kept.once("switches", lambda: Switches(theme))
        self._named: dict[str, list[tk.Misc]] = {}
        self._buttons: WeakValueDictionary[str, Button] = WeakValueDictionary()
        self.with_problem: WeakSet[tk.Misc] = WeakSet()
        self.on_focus: WeakKeyDictionary[tk.Misc, Callable[[tk.Misc], None]] = WeakKeyDictionary()
        # Of those that return False what is around them is scrolled.
        self.on_wheel: WeakKeyDictionary[tk.Misc, Callable[[int], object]] = WeakKeyDictionary()

    def turn_wheel(self, widget: tk.Misc | None, steps: int) -> None:
        """Scroll a widget, or the nearest one around it that can be scrolled any further."""
        while widget is not None:
            scroll = self.on_wheel.get(widget)
            if scroll is not None and scroll(steps) is not False:
                return
            widget = widget.master

    def px(self, length: float) -> int:
        """Convert pixels at 96 dpi to pixels of this screen."""
        return self.theme.px(length)

    def name(self, widget: tk.Misc, name: str) -> None:
        """Register a control by name, for tests and assistive tools.

        Controls of several variants may share a name, which then means the visible one.
        """
        others = [other for other in self._named.get(name, []) if other.winfo_exists()]
        self._named[name] = [*others, widget]

    def forget(self, box: tk.Misc) -> None:
        """Forget the names of a control and of those inside it."""
        for name, widgets in list(self._named.items()):
            left = [widget for widget in widgets if not f"{widget}.".startswith(f"{box}.")]
            if left != widgets:
                del self._named[name]
                if left:
                    self._named[name] = left

    @property
    def named(self) -> dict[str, tk.Misc]:
        """Controls by name."""
        return {name: _visible(widgets) for name, widgets in self._named.items()}

    @property
    def buttons(self) -> dict[str, Button]:
        """Buttons by name."""
        found = {name: self._buttons.get(str(widget)) for name, widget in self.named.items()}
        return {name: button for name, button in found.items() if button is not None}

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
        made = Button(self.theme, parent, text, command, kind=kind, ground=ground, width=width)
        self._buttons[str(made.widget)] = made
        if name:
            self.name(made.widget, name)
        return made

    def label(
        self,
        parent: tk.Misc,
        text: str = "",
        *,
        style: str = "",
        ground: Role = "card",
        wrap: int = 0,
    ) -> "Label":
        """Create a label. style: "Dim", "Small", "SmallDim", "Bold", "Heading", "Danger", …"""
        label = Label(parent, text=text, justify="left")
        label.ground = ground.capitalize()
        label.say(text, style)
        if wrap:
            label.configure(wraplength=self.px(wrap))
            label.wraps = True
        return label

    def heading(
        self, parent: tk.Misc, title: str = "", lead: str = "", *, ground: Role = "window"
    ) -> tuple[ttk.Frame, "Label", "Label"]:
        """Create title and lead of a page; return the frame to place and both labels."""
        frame = self.frame(parent, ground=ground)
        title_label = self.label(frame, title, style="Title", ground=ground)
        lead_label = self.label(frame, lead, style="Dim", ground=ground)
        title_label.pack(anchor="w")
        lead_label.pack(anchor="w")
        wrap_within(parent, lead_label, margin=2 * self.px(_PAGE_MARGIN))
        return frame, title_label, lead_label

    def striped(self, parent: tk.Misc) -> ttk.Frame:
        """Create a box with a stripe at its left, as of help below a field."""
        box = self.frame(parent)
        stripe = tk.Frame(box, width=self.px(_STRIPE))
        self.theme.paint(stripe, bg="accent")
        stripe.pack(side="left", fill="y", padx=(0, self.px(10)))
        return box

    def divider(self, parent: tk.Misc) -> tk.Frame:
        """Create a thin line."""
        line = tk.Frame(parent, height=1)
        self.theme.paint(line, bg="line")
        return line

    def frame(self, parent: tk.Misc, *, ground: Role = "card") -> ttk.Frame:
        """Create an empty frame with a background color of the theme."""
        return ttk.Frame(parent, style=f"{ground.capitalize()}.TFrame")

    def card(self, parent: tk.Misc, *, on: Role = "window") -> tuple[ttk.Frame, ttk.Frame]:
        """Create a card with rounded corners; return the frame to place and the frame to fill."""
        outer = ttk.Frame(parent, style=card_style(self.theme.faces, on))
        inner = self.frame(outer)
        inner.pack(fill="both", expand=True, padx=self.px(CARD_PAD), pady=self.px(14))
        return outer, inner

    def wrap_in_card(self, box: tk.Misc, width: int) -> None:
        """Wrap the labels of cards in a box to a width of the cards in pixels.

        The width is passed in because a card that is as wide as its text never becomes narrower.
        """
        for widget in box.winfo_children():
            if isinstance(widget, Label) and widget.wraps:
                room = max(120, width - 2 * self.px(CARD_PAD) - self.px(_BEYOND))
                widget.configure(wraplength=room - widget.inset)
            self.wrap_in_card(widget, width)

    def titled_card(self, parent: tk.Misc, title: str) -> tuple[ttk.Frame, ttk.Frame, ttk.Frame]:
        """Create a card with a title; return the frame to place, its head and the one to fill."""
        outer, inner = self.card(parent)
        head = self.frame(inner)
        head.pack(fill="x")
        self.label(head, title, style="Heading").pack(side="left")
        return outer, head, inner

    def empty_card(self, parent: tk.Misc, title: str, text: str) -> tuple[ttk.Frame, ttk.Frame]:
        """Create a card for a page without contents; return it and the frame for its buttons."""
        outer, inner = self.card(parent)
        self.label(inner, title, style="Heading").pack(anchor="w")
        pad = (self.px(6), self.px(12))
        label = self.label(inner, text)
        label.pack(anchor="w", pady=pad)
        margin = 2 * self.px(_PAGE_MARGIN + CARD_PAD)
        wrap_within(parent, label, margin=margin, most=self.px(520))
        line = self.frame(inner)
        line.pack(anchor="w")
        return outer, line

    def scrollbar(
        self,
        parent: tk.Misc,
        command: Callable[..., tuple[float, float] | None],
        *,
        ground: Role = "card",
        width: int = SCROLLBAR,
        is_across: bool = False,
    ) -> ttk.Scrollbar:
        """Create a scrollbar, which is not seen while there is nothing to scroll.

        Its place stays, since a text that became wider might not need it, and then need it again.
        """
        style = scrollbar_style(self.theme.faces, ground, width, is_across=is_across)
        orient: Literal["horizontal", "vertical"] = "horizontal" if is_across else "vertical"
        return ttk.Scrollbar(parent, style=style, orient=orient, command=command, takefocus=0)

    def scrollbar_of(self, parent: tk.Misc, box: ttk.Treeview | tk.Text) -> ttk.Scrollbar:
        """Create the scrollbar of a table or a text."""
        bar = self.scrollbar(parent, box.yview)
        box.configure(yscrollcommand=bar.set)
        return bar

    def scroll_by_wheel(self, box: ttk.Treeview | tk.Text | tk.Canvas, by: int = 1) -> None:
        """Scroll a box by so many units a notch of the wheel; at its end, what is around it."""

        def scroll(steps: int) -> bool:
            is_free = can_scroll(box, steps)
            if is_free:
                box.yview_scroll(by * steps, "units")
            return is_free

        self.on_wheel[box] = scroll

    def text_box(self, parent: tk.Misc, *, width: int, height: int) -> tk.Text:
        """Create a field for several lines. width, height: in characters."""
        box = tk.Text(parent, width=width, height=height, wrap="word", font=BODY)
        box.configure(relief="flat", borderwidth=0, highlightthickness=1)
        box.configure(padx=self.px(7), pady=self.px(5))
        self.theme.paint(
            box,
            bg="field",
            fg="text",
            insertbackground="text",
            highlightcolor="accent",
            highlightbackground="border",
            selectbackground="fill",
            selectforeground="on_fill",
        )
        return box

    def switch(
        self, parent: tk.Misc, command: Command, *, text: str = "", ground: Role = "card"
    ) -> Switch:
        """Create a switch."""
        return Switch(self._switches, parent, command, text=text, ground=ground)

    def kept_switch(
        self,
        parent: tk.Misc,
        kept_as: str,
        changed: Command = lambda: None,
        *,
        text: str = "",
        start: bool = False,
    ) -> Switch:
        """Create a switch whose state is kept."""

        def switched() -> None:
            self.kept.keep(kept_as, switch.is_on)
            changed()

        switch = self.switch(parent, switched, text=text)
        switch.show(self.kept.value(kept_as, start))
        return switch

    def progress(
        self, parent: tk.Misc, *, ground: Role = "card", height: int = PROGRESS[0]
    ) -> "Progress":
        """Create a progress bar at 0."""
        style = progress_style(self.theme.faces, ground, height)
        return Progress(parent, style=style, height=self.px(height))


def can_scroll(box: ttk.Treeview | tk.Text | tk.Canvas, steps: int) -> bool:
    """Return whether a box has more to show in a direction: down, or up for negative steps."""
    first, last = box.yview()
    return first > 0 if steps < 0 else last < 1


def _visible(widgets: list[tk.Misc]) -> tk.Misc:
    """Return the visible one of several controls with one name."""
    if len(widgets) == 1:
        return widgets[0]
    return next((widget for widget in reversed(widgets) if widget.winfo_viewable()), widgets[-1])


def focused(widget: tk.Misc) -> tk.Misc | None:
    """Return the widget that has the focus; None also for widgets that Tk creates itself.

    tkinter's own `focus_get` raises KeyError while the list of a combo box is open.
    """
    try:
        return widget.focus_get()
    except KeyError:
        return None
