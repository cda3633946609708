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
        box = kit.frame(scroller.inner, ground="window")
        box.pack(anchor="nw", padx=kit.px(28), pady=kit.px(21))
        kit.label(box, "Keys", style="Title", ground="window").pack(anchor="w")
        kit.label(
            box, "The whole program can be used without a mouse.", style="Dim", ground="window"
        ).pack(anchor="w", pady=(0, kit.px(14)))
        outer, inner = kit.card(box)
        outer.pack(anchor="w")
        inner.grid_columnconfigure(0, minsize=kit.px(220))
        inner.grid_columnconfigure(1, minsize=kit.px(380))
        pages = [(page.key, f"Go to {page.title}") for page in context.pages if page.key]
        for line, (keys, description) in enumerate((*KEYS, *pages)):
            kit.label(inner, keys, style="Mono").grid(row=line, column=0, sticky="w")
            kit.label(inner, description).grid(row=line, column=1, sticky="w", pady=kit.px(4))
