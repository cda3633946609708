"""Card with the memory forecast and ways to lower the peak."""

import tkinter as tk
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING

from ui.charts.bar_table import BarRow, BarTable
from ui.charts.stacked_bar import StackedBar
from ui.context import Context, Offer
from ui.messages.memory import (
    FixSummary,
    colors_of,
    component_title,
    failure_text,
    fix_summary,
    forecast_notes,
    phase_title,
    verdict,
    visible_components,
)
from ui.messages.problems import capitalized
from ui.model.form_fields import MEMORY_PAGE
from ui.progress.units import format_bytes
from ui.widgets.placing import show, toned, while_visible

if TYPE_CHECKING:
    from onetrainer.run.events import Forecast

_MAX_FIXES = 5
_APPLY_ROOM = 112
_INTRO = (
    "Estimates the memory this run needs: GPU memory, or RAM on a computer without a GPU. "
    "This takes a moment."
)
_OF_EARLIER = "This forecast is out of date: settings have changed."
_COUNT_AGAIN = "Estimates the memory with the current settings"


class MemoryCard:
    """Card with the memory forecast, which all pages of a window share.

    is_full: whether it shows all of the forecast, or its verdict only.
    """

    def __init__(
        self, context: Context, parent: tk.Misc, page: str, *, line: int, is_full: bool
    ) -> None:
        self._context = context
        self._is_full = is_full
        widgets = context.widgets
        self._state: tuple[object, ...] = ()
        self._outer, head, inner = widgets.titled_card(parent, "Memory")
        self._outer.grid(row=line, column=0, sticky="ew", pady=(0, widgets.px(14)))
        self._button = widgets.button(
            head, "Will it fit?", self._clicked, name=f"will it fit {page}"
        )
        self._button.widget.pack(side="right")
        self._intro = widgets.label(inner, _INTRO, style="SmallDim", wrap=236)
        self._intro.pack(anchor="w", pady=(widgets.px(4), 0))
        self._verdict = widgets.label(inner, wrap=236)
        self._about = widgets.label(inner, style="SmallDim", wrap=236)
        self._note = widgets.label(inner, style="SmallWarning", wrap=236)
        widgets.name(self._verdict, f"verdict {page}")
        self._result = widgets.frame(inner)
        self._stack = StackedBar(widgets, self._result, has_legend=self._is_full)
        self._stack.canvas.pack(fill="x")
        self._phases = BarTable(widgets, self._result, color="fill")
        self._fixes_title = widgets.label(self._result, style="SmallDim")
        self._fixes: list[FixRow] = []
        if self._is_full:
            title = widgets.label(self._result, "Peak of each phase", style="SmallDim")
            title.pack(anchor="w", pady=(widgets.px(12), widgets.px(2)))
            self._phases.canvas.pack(fill="x")
            self._fixes_title.pack(anchor="w", pady=(widgets.px(12), 0))
            self._fixes = [FixRow(context, self._result, index) for index in range(_MAX_FIXES)]
        self._foot = widgets.frame(inner)
        self._foot.pack(anchor="w")
        details = partial(context.act.show_page, MEMORY_PAGE)
        self._more = widgets.button(self._foot, "Details", details, name=f"memory details {page}")
        context.forecasts.listen(while_visible(self._outer, self.refresh))

    def refresh(self) -> None:
        """Show the current forecast."""
        forecasts = self._context.forecasts
        is_old = forecasts.is_outdated
        self._button.enable("" if forecasts.is_working else forecasts.blocked_reason())
        for row in self._fixes:
            row.refresh(is_old=is_old)
        state = (forecasts.revision, is_old)
        if state == self._state:
            return
        self._state = state
        forecast = forecasts.answer
        again = "Update" if forecast is not None else "Will it fit?"
        self._button.set_text("Stop" if forecasts.is_working else again)
        if forecast is not None:
            self._show(forecast)
        self._show_note(is_old=is_old)
        has_more = forecast is not None and not self._is_full
        show(self._more.widget, has_more, side="left", pady=(self._context.widgets.px(8), 0))

    def _show(self, forecast: "Forecast") -> None:
        px = self._context.widgets.px
        summary, forecasts = verdict(forecast), self._context.forecasts
        # An outdated verdict is shown without color.
        self._verdict.say(
            summary.text, toned("dim" if forecasts.is_outdated else summary.tone, "Heading")
        )
        hardware = forecasts.inputs_of_answer["hardware"]
        device = hardware.get("device", "") if isinstance(hardware, dict) else ""
        notes = forecast_notes(forecast, device=str(device))
        self._about.say(f"{summary.details} {notes}".rstrip())
        self._intro.pack_forget()
        show(self._verdict, True, anchor="w", pady=(px(4), 0), before=self._foot)
        show(self._about, True, anchor="w", before=self._foot)
        show(self._result, True, fill="x", pady=(px(8), 0), before=self._foot)
        parts = visible_components(forecast.phases.get(forecast.peak_phase, {}))
        named = [(name, component_title(name), size) for name, size in parts]
        self._stack.show(named, colors_of([name for name, _ in parts]), forecast.available_bytes)
        peaks = {name: sum(parts.values()) for name, parts in forecast.phases.items()}
        free = forecast.available_bytes
        most = max([*peaks.values(), free, 1])
        rows = [
            BarRow(phase_title(name), peak / most, format_bytes(peak))
            for name, peak in peaks.items()
            if peak
        ]
        self._phases.show(rows, mark=free / most if 0 < free < most else 0.0)
        fixes = [fix_summary(fix, forecast) for fix in forecast.fixes[:_MAX_FIXES]]
        self._fixes_title.say("Ways to lower it, cheapest first" if fixes else "")
        for row, fix in zip_longest(self._fixes, fixes[: len(self._fixes)]):
            row.show(fix)

    def _show_note(self, *, is_old: bool) -> None:
        forecasts = self._context.forecasts
        text, style = _OF_EARLIER if is_old else "", "SmallWarning"
        if forecasts.is_working:
            text = f"{capitalized(forecasts.activity or 'estimating memory')} …"
            style = "SmallDim"
        elif forecasts.failed is not None:
            text, style = failure_text(forecasts.failed), "SmallDanger"
        self._note.say(text, style)
        self._note.pack_forget()
        below = self._about if self._about.winfo_manager() else self._foot
        pad = (self._context.widgets.px(4), 0)
        show(self._note, bool(text), anchor="w", pady=pad, before=below)

    def _clicked(self) -> None:
        forecasts = self._context.forecasts
        if forecasts.is_working:
            forecasts.stop()
            return
        self._context.act.commit()
        forecasts.start()


class FixRow:
    """Way to lower the peak, with a button that applies it."""

    def __init__(self, context: Context, parent: tk.Misc, index: int) -> None:
        self._context = context
        self._fix: FixSummary | None = None
        widgets = context.widgets
        self._box = widgets.frame(parent)
        self._action = widgets.label(self._box, wrap=236)
        self._action.inset = widgets.px(_APPLY_ROOM)
        self._about = widgets.label(self._box, style="SmallDim", wrap=236)
        self._button = widgets.button(
            self._box, "Apply", self._apply_or_update, name=f"apply fix {index}"
        )
        self._box.grid_columnconfigure(0, weight=1)
        self._action.grid(row=0, column=0, sticky="w")
        self._about.grid(row=1, column=0, columnspan=2, sticky="w", pady=(widgets.px(2), 0))
        self._button.widget.grid(row=0, column=1, sticky="ne", padx=(widgets.px(8), 0))

    def show(self, fix: FixSummary | None) -> None:
        """Show a fix, or nothing."""
        self._fix = fix
        pad = (self._context.widgets.px(8), 0)
        show(self._box, fix is not None, anchor="w", fill="x", pady=pad)
        if fix is not None:
            self._action.say(fix.text)
            self._about.say(fix.details, toned(fix.tone, "Small"))
            self.refresh(is_old=self._context.forecasts.is_outdated)

    def refresh(self, *, is_old: bool) -> None:
        """Update the button: apply the fix, or update the forecast once it is applied.

        is_old: whether settings have changed since the forecast.
        """
        if self._fix is None:
            return
        can_count = self._is_applied and is_old
        reason = "This fix is already applied." if self._is_applied and not is_old else ""
        if can_count:
            forecasts = self._context.forecasts
            reason = (
                "The forecast is running." if forecasts.is_working else forecasts.blocked_reason()
            )
        is_quiet = self._fix.tone == "dim" and not can_count
        self._button.set_kind("primary" if can_count else "quiet" if is_quiet else "plain")
        self._button.set_text("Update" if can_count else "Applied" if self._is_applied else "Apply")
        self._button.enable(reason)
        self._button.describe(_COUNT_AGAIN if can_count else "")

    @property
    def _is_applied(self) -> bool:
        """Whether the settings already have the values of the fix."""
        value, fix = self._context.draft.value, self._fix
        return fix is not None and all(
            value(path) == wanted for path, wanted in fix.changes.items()
        )

    def _apply_or_update(self) -> None:
        if self._fix is None:
            return
        act, draft = self._context.act, self._context.draft
        if self._is_applied:
            act.commit()
            self._context.forecasts.start()
            return
        act.commit()
        draft.set_all(self._fix.changes)
        applied = draft.last_change
        offer = Offer("Undo", "undo fix", draft.undo, lambda: draft.last_change is applied)
        act.show_message(f"{self._fix.text}: applied.", offer)
