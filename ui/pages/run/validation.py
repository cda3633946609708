"""Validation card of the run page: verdict, key figures, loss by noise level and by concept."""

import tkinter as tk

from ui.charts.bar_table import BarRow, BarTable
from ui.context import Context
from ui.messages.dataset import Fact
from ui.progress.validation import VERDICTS, LossPart, facts, format_change, with_band
from ui.theme.palette import Role
from ui.widgets.fact_rows import FactRows
from ui.widgets.placing import show, toned, wrap_within
from ui.widgets.scroller import Scroller
from ui.widgets.widgets import Label

# Height of chart and card together from which the details are open by default. In a low window
# with a banner the chart has priority.
_DETAILS_FROM = 470


class ValidationCard:
    """Card below the loss, shown once there is a validation; the details can be folded.

    Args:
        above: Widget that fills the rest of the page; the card is placed below it.
    """

    def __init__(self, context: Context, parent: tk.Misc, above: tk.Widget, page: Scroller) -> None:
        self._context = context
        self._above, self._page = above, page
        widgets = context.widgets
        self._outer, head, inner = widgets.titled_card(parent, "Validation")
        self._verdict = widgets.label(head, style="Small")
        self._verdict.pack(side="left", padx=(widgets.px(12), 0))
        self._toggle_button = widgets.button(
            head, "Details", self._toggle_details, name="validation details", kind="quiet"
        )
        self._toggle_button.widget.pack(side="right")
        self._summary = widgets.label(inner, wrap=700)
        self._summary.pack(anchor="w", pady=(widgets.px(2), 0))
        self._details = widgets.frame(inner)
        self._facts = FactRows(widgets, self._details, label=110)
        self._facts.outer.grid(row=0, column=0, rowspan=2, sticky="nw")
        self._level_title, self._levels = self._make_table(1)
        self._concept_title, self._concepts = self._make_table(2)
        self._is_open: bool | None = None
        self._has_news = False
        self._state: tuple[object, ...] = ()
        wrap_within(inner, self._summary)
        # The widget moves when a banner appears, and the visible area grows with the window.
        for widget in (above, page.canvas):
            widget.bind("<Configure>", self._fit, add="+")

    def refresh(self) -> None:
        """Show the current state."""
        session = self._context.session
        validation = session.state.validation
        newest = validation.newest
        key = (session.generation, len(validation), newest)
        if key == self._state:
            return
        self._state = key
        self._has_news = newest is not None
        self._fit()
        if newest is None:
            return
        verdict, tone = VERDICTS[newest.verdict]
        self._verdict.say(verdict, toned(tone, "Small"))
        self._summary.say(newest.message)
        self._facts.show([Fact(*each) for each in facts(validation)])
        levels, (concepts, left_out) = validation.by_level(), validation.by_concept()
        self._levels.show(_rows(levels))
        self._concepts.show(_rows(concepts))
        self._level_title.say("By noise level" if levels else "")
        more = f", the worst {len(concepts)} of {len(concepts) + left_out}" if left_out else ""
        self._concept_title.say(f"By concept{more}" if concepts else "")

    def _make_table(self, column: int) -> tuple[Label, BarTable]:
        widgets = self._context.widgets
        label = widgets.label(self._details, style="SmallDim")
        table = BarTable(widgets, self._details, color="validation")
        left = (widgets.px(28), 0)
        label.grid(row=0, column=column, sticky="w", padx=left)
        table.canvas.grid(row=1, column=column, sticky="new", padx=left, pady=(widgets.px(2), 0))
        self._details.grid_columnconfigure(column, weight=1, uniform="tables")
        return label, table

    def _toggle_details(self) -> None:
        self._is_open = not self._details.winfo_manager()
        self._fit()
        if self._is_open:
            self._page.settle()
            self._page.show(self._details)

    def _fit(self, _: object = None) -> None:
        """Show the card, with details if they fit or the user has opened them."""
        px = self._context.widgets.px
        room = self._page.canvas.winfo_height() - self._above.winfo_y()
        below = {"side": "bottom", "fill": "x", "pady": (px(14), 0), "before": self._above}
        show(self._outer, self._has_news, **below)
        is_open = room >= px(_DETAILS_FROM) if self._is_open is None else self._is_open
        self._toggle_button.set_text("Less" if is_open else "Details")
        show(self._details, is_open, fill="x", pady=(px(10), 0))


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
