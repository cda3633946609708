"""Page that lists the keyboard shortcuts."""

import tkinter as tk

from ui.actions.keys import SHORTCUTS
from ui.context import Context, View
from ui.widgets.scroller import Scroller


class KeysPage(View):
    """Keyboard shortcuts of the window."""

    name = "keys"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        widgets = context.widgets
        scroller = Scroller(widgets, parent)
        self.outer: tk.Widget = scroller.outer
        box, _, _ = widgets.heading(
            scroller.inner, "Keys", "The whole program can be used without a mouse."
        )
        box.pack(anchor="nw", padx=widgets.px(28), pady=widgets.px(21))
        outer, inner = widgets.card(box)
        outer.pack(anchor="w", pady=(widgets.px(14), 0))
        inner.grid_columnconfigure(0, minsize=widgets.px(220))
        inner.grid_columnconfigure(1, minsize=widgets.px(380))
        listed = [(keys, description) for keys, description, _ in SHORTCUTS]
        pages = [(page.key, f"Go to {page.title}") for page in context.pages if page.key]
        for line, (keys, description) in enumerate((*listed, *pages)):
            widgets.label(inner, keys, style="Mono").grid(row=line, column=0, sticky="w")
            widgets.label(inner, description).grid(
                row=line, column=1, sticky="w", pady=widgets.px(4)
            )
