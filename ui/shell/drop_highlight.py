"""Frame around the window, and a line that says what it takes, while files are dragged over it."""

import tkinter as tk

from ui.context import Context
from ui.model.dropped import ACCEPTED
from ui.theme.theme import HEADING

_THICKNESS = 4


class DropHighlight:
    """Edges and a line over the page, hidden until they are needed."""

    def __init__(self, context: Context) -> None:
        widgets, root = context.widgets, context.root
        thickness = widgets.px(_THICKNESS)
        places: tuple[dict[str, object], ...] = (
            {"relwidth": 1, "height": thickness},
            {"relheight": 1, "width": thickness},
            {"relx": 1, "anchor": "ne", "relheight": 1, "width": thickness},
        )
        self._parts: list[tuple[tk.Widget, dict[str, object]]] = []
        for place in places:
            edge = tk.Frame(root)
            widgets.theme.paint(edge, bg="fill")
            self._parts.append((edge, place))
        line = tk.Label(root, text=f"Drop {ACCEPTED}", font=HEADING, pady=widgets.px(10))
        widgets.theme.paint(line, bg="fill", fg="on_fill")
        self._parts.append((line, {"rely": 1, "anchor": "sw", "relwidth": 1}))
        widgets.name(line, "drop highlight")

    def show(self, is_shown: bool) -> None:
        """Show or hide it."""
        for widget, place in self._parts:
            if is_shown:
                widget.place(**place)  # type: ignore[arg-type]  # Tk checks them
                widget.lift()
            else:
                widget.place_forget()
