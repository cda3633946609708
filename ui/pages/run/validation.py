"""Validation card of the run page: verdict, key figures, loss by noise level and by concept."""

import tkinter as tk
from tkinter import ttk

from ui.charts.bar_table import BarRow, BarTable
from ui.context import Context
from ui.progress.validation import VERDICTS, LossPart, Validation, facts, format_change, with_band
from ui.theme.palette import Role
from ui.widgets.scroller import Scroller

_MAX_FACTS = 5
# Height of chart and card together from which the details are open by default. In a low window
# with a banner the chart has priority.
_DETAILS_FROM = 470
_COLUMNS = 3


class ValidationCard:
    """Card below the loss, shown once there is a validation; the details can be folded."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        kit = context.kit
        self._outer, inner = kit.card(parent)
        head = kit.frame(inner)
        head.pack(fill="x")
        kit.label(head, "Validation", style="Heading").pack(side="left")
        self._verdict: ttk.Label = kit.label(head, style="Small")
        self._verdict.pack(side="left", padx=(kit.px(12), 0))
        self._toggle_button = kit.button(
            head, "Details", self._toggle_details, name="validation details", kind="quiet"
        )
        self._toggle_button.widget.pack(side="right")
        self._summary: ttk.Label = kit.label(inner, wrap=700)
        self._summary.pack(anchor="w", pady=(kit.px(2), 0))
        self._details = kit.frame(inner)
        self._facts = self._make_facts(0)
        self._level_title, self._levels = self._make_table("By noise level", 1)
        self._concept_title, self._concepts = self._make_table("By concept", 2)
        self._is_open: bool | None = None
        self._has_news = False
        self._state: tuple[object, ...] = ()
        inner.bind("<Configure>", self._wrap)
        self._widget_above: tk.Widget | None = None
        self._page: Scroller | None = None

    def place_below(self, widget_above: tk.Widget, page: Scroller) -> None:
        """Place the card below a widget that fills the rest of a page."""
        self._widget_above, self._page = widget_above, page
        # The widget moves when a banner appears, and the visible area grows with the window.
        for widget in (widget_above, page.canvas):
            widget.bind("<Configure>", self._fit, add="+")

    def refresh(self) -> None:
        """Show the current state."""
        session = self._context.session
        validation = session.state.validation
        key = (session.generation, len(validation), validation.newest)
        if key == self._state:
            return
        self._state = key
        newest = validation.newest
        self._has_news = newest is not None
        self._fit()
        if newest is None:
            return
        verdict, tone = VERDICTS[newest.verdict]
        self._verdict.configure(text=verdict, style=_label_style(tone, "Small"))
        self._summary.configure(text=newest.message)
        self._show_facts(validation)
        self._show_tables(validation)

    def _make_facts(self, column: int) -> list[tuple[ttk.Label, ttk.Label]]:
        kit = self._context.kit
        box = kit.frame(self._details)
        box.grid(row=0, column=column, rowspan=2, sticky="nw")
        box.grid_columnconfigure(0, minsize=kit.px(110))
        labels = []
        for line in range(_MAX_FACTS):
            name, value = kit.label(box, style="SmallDim"), kit.label(box, style="Small")
            name.grid(row=line, column=0, sticky="w", pady=kit.px(1))
            value.grid(row=line, column=1, sticky="w", padx=(kit.px(8), 0))
            labels.append((name, value))
        return labels

    def _make_table(self, title: str, column: int) -> tuple[ttk.Label, BarTable]:
        kit = self._context.kit
        label = kit.label(self._details, title, style="SmallDim")
        table = BarTable(kit, self._details, color="validation")
        left = (kit.px(28), 0)
        label.grid(row=0, column=column, sticky="w", padx=left)
        table.canvas.grid(row=1, column=column, sticky="new", padx=left, pady=(kit.px(2), 0))
        self._details.grid_columnconfigure(column, weight=1, uniform="tables")
        return label, table

    def _show_facts(self, validation: Validation) -> None:
        shown_facts = facts(validation)[:_MAX_FACTS]
        for index, (name, value) in enumerate(self._facts):
            if index < len(shown_facts):
                label, figure, tone = shown_facts[index]
                name.configure(text=label)
                value.configure(text=figure, style=_label_style(tone, "Small"))
                name.grid()
                value.grid()
            else:
                name.grid_remove()
                value.grid_remove()

    def _show_tables(self, validation: Validation) -> None:
        levels = validation.by_level()
        concepts, left_out = validation.by_concept()
        self._levels.show(_rows(levels))
        self._concepts.show(_rows(concepts))
        self._level_title.configure(text="By noise level" if levels else "")
        more = f", the worst {len(concepts)} of {len(concepts) + left_out}" if left_out else ""
        self._concept_title.configure(text=f"By concept{more}" if concepts else "")

    def _toggle_details(self) -> None:
        self._is_open = not self._details.winfo_manager()
        self._fit()
        if self._is_open and self._page is not None:
            self._page.settle()
            self._page.show(self._details)

    def _fit(self, _: object = None) -> None:
        """Show the card, with details if they fit or the user has opened them."""
        kit, widget_above, page = self._context.kit, self._widget_above, self._page
        if widget_above is None or page is None:
            return
        if not self._has_news:
            self._outer.pack_forget()
            return
        room = page.canvas.winfo_height() - widget_above.winfo_y()
        if not self._outer.winfo_manager():
            self._outer.pack(side="bottom", fill="x", pady=(kit.px(14), 0), before=widget_above)
        is_open = room >= kit.px(_DETAILS_FROM) if self._is_open is None else self._is_open
        self._toggle_button.set_text("Less" if is_open else "Details")
        if is_open and not self._details.winfo_manager():
            self._details.pack(fill="x", pady=(kit.px(10), 0))
        elif not is_open:
            self._details.pack_forget()

    def _wrap(self, event: "tk.Event[tk.Misc]") -> None:
        self._summary.configure(wraplength=max(200, event.width - 8))


def _rows(losses: list[LossPart]) -> list[BarRow]:
    most = max((entry.loss for entry in losses), default=0.0)
    return [
        BarRow(
            entry.name,
            entry.loss / most if most > 0 else 0.0,
            with_band(entry.loss, entry.error),
            format_change(entry.change),
            _tone(entry),
        )
        for entry in losses
    ]


def _tone(entry: LossPart) -> Role:
    """Return a color that is only good or bad where the change exceeds its band."""
    if entry.change is None or not entry.is_sure:
        return "dim"
    return "good" if entry.change < 0 else "warning"


def _label_style(tone: Role, font: str) -> str:
    """Return the ttk style of a label in a tone."""
    return f"{font}.Card.TLabel" if tone == "text" else f"{font}{tone.capitalize()}.Card.TLabel"
