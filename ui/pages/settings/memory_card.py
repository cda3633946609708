"""Card with the memory forecast and ways to lower the peak."""

import tkinter as tk
from tkinter import ttk

from onetrainer.run.events import Forecast
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
from ui.progress.run_state import format_bytes
from ui.theme.palette import Role
from ui.widgets.widgets import Button, while_visible, wrap_in_card

# The page with all details, and those with the verdict only.
FULL, SHORT = "hardware", ("method", "training", "rewards")

_MAX_FIXES = 5
_APPLY_ROOM = 112
_INTRO = (
    "Estimates the memory this run needs: GPU memory, or RAM on a computer without a GPU. "
    "This takes a moment."
)
_OF_EARLIER = "This forecast is out of date: settings have changed."
_COUNT_AGAIN = "Estimates the memory with the current settings"


class MemoryCard:
    """Card with the memory forecast, which all pages of a window share."""

    def __init__(self, context: Context, parent: tk.Misc, page: str, *, line: int) -> None:
        self._context = context
        self._is_full = page == FULL
        kit = context.kit
        self._state: tuple[object, ...] = ()
        outer, inner = kit.card(parent)
        outer.grid(row=line, column=0, sticky="ew", pady=(0, kit.px(14)))
        self._outer: tk.Misc = outer
        self._make_head(inner, page)
        self._result = kit.frame(inner)
        self._make_result(self._result)
        self._make_foot(inner, page)
        context.forecasts.listen(while_visible(self._outer, self.refresh))

    def _make_head(self, inner: tk.Misc, page: str) -> None:
        kit = self._context.kit
        head = kit.frame(inner)
        head.pack(fill="x")
        kit.label(head, "Memory", style="Heading").pack(side="left")
        self._button = kit.button(head, "Will it fit?", self._clicked, name=f"will it fit {page}")
        self._button.widget.pack(side="right")
        self._intro: ttk.Label = kit.label(inner, _INTRO, style="SmallDim", wrap=236)
        self._intro.pack(anchor="w", pady=(kit.px(4), 0))
        self._verdict: ttk.Label = kit.label(inner, wrap=236)
        self._about: ttk.Label = kit.label(inner, style="SmallDim", wrap=236)
        self._note: ttk.Label = kit.label(inner, style="SmallWarning", wrap=236)
        kit.name(self._verdict, f"verdict {page}")

    def _make_result(self, box: tk.Misc) -> None:
        kit = self._context.kit
        self._stack = StackedBar(kit, box, has_legend=self._is_full)
        self._stack.canvas.pack(fill="x")
        self._phases = BarTable(kit, box, color="fill")
        self._fixes_title: ttk.Label = kit.label(box, style="SmallDim")
        self._fixes: list[FixRow] = []
        if self._is_full:
            title = kit.label(box, "Peak of each phase", style="SmallDim")
            title.pack(anchor="w", pady=(kit.px(12), kit.px(2)))
            self._phases.canvas.pack(fill="x")
            self._fixes_title.pack(anchor="w", pady=(kit.px(12), 0))
            self._fixes = [FixRow(self._context, box, index) for index in range(_MAX_FIXES)]

    def _make_foot(self, inner: tk.Misc, page: str) -> None:
        kit, act = self._context.kit, self._context.act
        self._foot = kit.frame(inner)
        self._foot.pack(anchor="w")
        self._more = kit.button(
            self._foot,
            "Details",
            lambda: act.show_page(FULL),
            name=f"memory details {page}",
        )

    def wrap(self, width: int) -> None:
        """Wrap the text to a card of a width in pixels."""
        labels = (self._intro, self._verdict, self._about, self._note)
        room = wrap_in_card(self._context.kit, width, *labels)
        for row in self._fixes:
            row.wrap(room)

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
        forecast = forecasts.forecast
        again = "Update" if forecast is not None else "Will it fit?"
        self._button.set_text("Stop" if forecasts.is_working else again)
        if forecast is not None:
            self._show(forecast)
        self._show_note(is_old=is_old)
        if forecast is not None and not self._is_full:
            self._more.widget.pack(side="left", pady=(self._context.kit.px(8), 0))

    def _show(self, forecast: Forecast) -> None:
        kit = self._context.kit
        summary, forecasts = verdict(forecast), self._context.forecasts
        # An outdated verdict is shown without color.
        tone: Role = "dim" if forecasts.is_outdated else summary.tone
        kind = "" if tone == "text" else tone.capitalize()
        self._verdict.configure(text=summary.text, style=f"Heading{kind}.Card.TLabel")
        notes = forecast_notes(forecast, is_for_processor=forecasts.is_for_processor)
        self._about.configure(text=f"{summary.details} {notes}".rstrip())
        if self._intro.winfo_manager():
            self._intro.pack_forget()
            self._verdict.pack(anchor="w", pady=(kit.px(4), 0), before=self._foot)
            self._about.pack(anchor="w", before=self._foot)
            self._result.pack(fill="x", pady=(kit.px(8), 0), before=self._foot)
        parts = visible_components(forecast.phases.get(forecast.peak_phase, {}))
        named = [(name, component_title(name), size) for name, size in parts]
        self._stack.show(named, colors_of([name for name, _ in parts]), forecast.available_bytes)
        self._show_phases(forecast, {name: phase_title(name) for name in forecast.phases})
        self._show_fixes(forecast)

    def _show_phases(self, forecast: Forecast, titles: dict[str, str]) -> None:
        peaks = {name: sum(parts.values()) for name, parts in forecast.phases.items()}
        free = forecast.available_bytes
        most = max([*peaks.values(), free, 1])
        rows = [
            BarRow(titles[name], peak / most, format_bytes(peak), "", "dim")
            for name, peak in peaks.items()
            if peak
        ]
        self._phases.show(rows, mark=free / most if 0 < free < most else 0.0)

    def _show_fixes(self, forecast: Forecast) -> None:
        fixes = [fix_summary(fix, forecast) for fix in forecast.fixes[:_MAX_FIXES]]
        title = "Ways to lower it, cheapest first" if fixes else ""
        self._fixes_title.configure(text=title)
        for index, row in enumerate(self._fixes):
            row.show(fixes[index] if index < len(fixes) else None)

    def _show_note(self, *, is_old: bool) -> None:
        forecasts = self._context.forecasts
        text, style = "", "SmallWarning.Card.TLabel"
        if forecasts.is_working:
            text = f"{capitalized(forecasts.activity or 'estimating memory')} …"
            style = "SmallDim.Card.TLabel"
        elif forecasts.failed is not None:
            text, style = failure_text(forecasts.failed), "SmallDanger.Card.TLabel"
        elif is_old:
            text = _OF_EARLIER
        self._note.configure(text=text, style=style)
        if text:
            below = self._about if self._about.winfo_manager() else self._foot
            self._note.pack(anchor="w", pady=(self._context.kit.px(4), 0), before=below)
        else:
            self._note.pack_forget()

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
        kit = context.kit
        self._box = kit.frame(parent)
        self._action: ttk.Label = kit.label(self._box, wrap=236)
        self._about: ttk.Label = kit.label(self._box, style="SmallDim", wrap=236)
        self._button: Button = kit.button(
            self._box, "Apply", self._apply_or_update, name=f"apply fix {index}"
        )
        self._box.grid_columnconfigure(0, weight=1)
        self._action.grid(row=0, column=0, sticky="w")
        self._about.grid(row=1, column=0, columnspan=2, sticky="w", pady=(kit.px(2), 0))
        self._button.widget.grid(row=0, column=1, sticky="ne", padx=(kit.px(8), 0))

    def wrap(self, room: int) -> None:
        """Wrap the text to a width in pixels."""
        self._action.configure(wraplength=room - self._context.kit.px(_APPLY_ROOM))
        self._about.configure(wraplength=room)

    def show(self, fix: FixSummary | None) -> None:
        """Show a fix, or nothing."""
        self._fix = fix
        if fix is None:
            self._box.pack_forget()
            return
        self._action.configure(text=fix.text)
        style = "SmallDim" if fix.tone == "dim" else f"Small{fix.tone.capitalize()}"
        self._about.configure(text=fix.details, style=f"{style}.Card.TLabel")
        self._box.pack(anchor="w", fill="x", pady=(self._context.kit.px(8), 0))
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
