"""Welcome page: three ways to start."""

import tkinter as tk
from collections.abc import Callable
from tkinter import ttk
from typing import NamedTuple

from onetrainer.families.registry import any_base
from ui.context import Context, View
from ui.pages.welcome.icons import Draw, draw_demo, draw_images, draw_preset
from ui.theme.rounded import ButtonKind
from ui.widgets.drawing import Drawing
from ui.widgets.scroller import Scroller

_ICON_WIDTH, _ICON_HEIGHT = 96, 64
_GAP = 14
_LEAD = "OneTrainer trains Stable Diffusion on your images: a style, a person, a thing."
_FAMILIES = any_base(lambda spec: spec.label)
_KEYS = (
    "F5 starts   ·   Ctrl+F finds any setting   ·   F1 explains the current one   ·   "
    "“Help” lists all shortcuts"
)


class Way(NamedTuple):
    """One way to start."""

    title: str
    text: str
    button: str
    kind: ButtonKind
    go: Callable[[], object]
    icon: Draw


class WelcomePage(View):
    """Try the demo, train on images, or open a preset."""

    name = "welcome"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets = context.widgets
        scroller = Scroller(widgets, parent)
        scroller.follow_keyboard()
        self.outer: tk.Widget = scroller.outer
        box = widgets.frame(scroller.inner, ground="window")
        box.pack(fill="x", padx=widgets.px(28), pady=widgets.px(48))
        head, _, lead = widgets.heading(box, "What would you like to do?", _LEAD)
        lead.pack(pady=(widgets.px(4), 0))
        head.grid(row=0, column=0, columnspan=3, sticky="w", pady=(0, widgets.px(28)))
        for column, way in enumerate(self._ways()):
            self._add_card(box, column, way)
        widgets.label(box, _KEYS, style="SmallDim", ground="window").grid(
            row=3, column=0, columnspan=3, sticky="w", pady=(widgets.px(28), 0)
        )
        self._box = box
        box.bind("<Configure>", self._wrap)

    def refresh(self) -> None:
        """Do nothing: the page never changes."""

    def _ways(self) -> tuple[Way, ...]:
        act = self._context.act
        return (
            Way(
                "Try the demo",
                "Creates a tiny model and its images on this computer, ready to start. It shows "
                "everything in a few minutes, even without a GPU.",
                "Load the demo",
                "primary",
                act.load_demo,
                draw_demo,
            ),
            Way(
                "Train on my images",
                f"Three questions: your images, a base model ({_FAMILIES}), and what to make "
                "of them. Everything else is filled in.",
                "Choose images",
                "plain",
                lambda: act.show_page("start"),
                draw_images,
            ),
            Way(
                "Open a preset",
                f"Start with settings for {_FAMILIES} that come with the program, with "
                "your own, or with those from somebody else.",
                "Open a preset",
                "plain",
                act.choose_preset,
                draw_preset,
            ),
        )

    def _wrap(self, event: "tk.Event[tk.Misc]") -> None:
        """Wrap the text to cards that share the width of the page."""
        width = (event.width - 3 * self._context.widgets.px(_GAP)) // 3
        self._context.widgets.wrap_in_card(self._box, width)

    def _add_card(self, box: ttk.Frame, column: int, way: Way) -> None:
        widgets = self._context.widgets
        box.grid_columnconfigure(column, weight=1, uniform="cards")
        outer, inner = widgets.card(box)
        third = widgets.px(_GAP) // 3
        apart = (third * column, third * (2 - column))  # so that all have the same width
        outer.grid(row=2, column=column, sticky="nsew", padx=apart)
        width, height = widgets.px(_ICON_WIDTH), widgets.px(_ICON_HEIGHT)
        icon = Drawing(widgets, inner, lambda: way.icon(icon), width=width, height=height)
        icon.canvas.pack(anchor="w", pady=(widgets.px(6), widgets.px(14)))
        widgets.label(inner, way.title, style="Heading").pack(anchor="w")
        text = widgets.label(inner, way.text, style="Dim", wrap=180)
        widgets.name(text, f"text of way {column}")
        text.pack(anchor="w", pady=(widgets.px(6), widgets.px(16)))
        name = f"welcome {way.title.lower()}"
        button = widgets.button(inner, way.button, way.go, kind=way.kind, name=name)
        button.widget.pack(anchor="w", side="bottom")
