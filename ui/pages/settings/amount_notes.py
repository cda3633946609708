"""What lengths and intervals are in other units, from the images and the last forecast."""

from collections.abc import Callable

from ui.background.folder_summary import summarize_folder
from ui.background.forecaster import forecast_rates
from ui.background.threads import Latest
from ui.context import Context
from ui.model.amounts import amount_note
from ui.pages.settings.summary_card import first_folder, run_plan


class AmountNotes:
    """Notes next to the editors of amounts. changed: Called when they may be others."""

    def __init__(self, context: Context, changed: Callable[[], None]) -> None:
        self._context = context
        self._summaries = Latest(context.widgets.jobs, summarize_folder, changed)

    def of(self, value: object) -> str:
        """Return the note for a value of the draft: "about 1,230 steps, 41 min"."""
        draft = self._context.draft
        seconds, epoch = forecast_rates(self._context.forecasts, draft)
        plan = run_plan(draft, self._summaries.get(first_folder(draft)), epoch)
        return amount_note(value, plan, seconds)
