"""Page that lists the keyboard shortcuts."""

import tkinter as tk

from ui.context import Context, View
from ui.messages.keys import KEYS
from ui.widgets.scroller import Scroller


class KeysPage(View):
    """Keyboard shortcuts of the window."""

    name = "keys"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        kit = context.kit
        scroller = Scroller(kit, parent)
        self.outer: tk.Widget = scroller.outer
        box, _, _ = kit.heading(
            scroller.inner, "Keys", "The whole program can be used without a mouse."
        )
        box.pack(anchor="nw", padx=kit.px(28), pady=kit.px(21))
        outer, inner = kit.card(box)
        outer.pack(anchor="w", pady=(kit.px(14), 0))
        inner.grid_columnconfigure(0, minsize=kit.px(220))
        inner.grid_columnconfigure(1, minsize=kit.px(380))
        pages = [(page.key, f"Go to {page.title}") for page in context.pages if page.key]
        for line, (keys, description) in enumerate((*KEYS, *pages)):
            kit.label(inner, keys, style="Mono").grid(row=line, column=0, sticky="w")
            kit.label(inner, description).grid(row=line, column=1, sticky="w", pady=kit.px(4))
