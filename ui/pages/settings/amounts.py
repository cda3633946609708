"""Lengths and intervals of the draft in other units, by the images and the last forecast."""

from onetrainer.config.base.amount import Amount
from onetrainer.messages.durations import format_duration
from onetrainer.messages.formatting import counted, format_epochs
from onetrainer.schedules.amounts import intervals_in, steps_of
from ui.background.dataset_preview import PreviewData
from ui.background.forecaster import forecast_seconds
from ui.context import Context
from ui.model.amounts import amount_of


def note_of(context: Context, value: object) -> str:
    """Return the note for a value of the draft: "about 1,230 steps, 41 min"."""
    seconds = forecast_seconds(context.forecasts, context.draft)
    return amount_note(value, context.preview.get(), seconds)


def amount_note(value: object, data: PreviewData | None, seconds: float) -> str:
    """Return a value in the other units that are known."""
    steps, amount = steps_in(value, data, seconds), amount_of(value)
    if not steps:
        return ""
    unit = amount.unit if isinstance(amount, Amount) else "steps"
    others = [] if unit == "steps" else [counted(steps, "step")]
    if data is not None and unit != "epochs":
        others.append(format_epochs(epochs_in(steps, data)))
    if seconds and unit != "minutes":
        others.append(format_duration(steps * seconds))
    return f"about {', '.join(others)}" if others else ""


def steps_in(value: object, data: PreviewData | None, seconds: float = 0.0) -> int | None:
    """Return a value in steps; None if it is none or that is not known.

    data: Of the run's images; None if they are not known. seconds: Of a step; 0 the same.
    """
    amount = amount_of(value)
    if not isinstance(amount, Amount):
        return amount if isinstance(amount, int) else None
    if amount.unit == "minutes":
        return steps_of(amount, None, seconds) if seconds else None
    return data.preview.known_steps.get(str(amount)) if data is not None else None


def is_estimate(value: object, data: PreviewData | None) -> bool:
    """Return whether the steps of a value may still change."""
    amount = amount_of(value)
    is_exact = data is not None and not data.preview.unexamined
    return isinstance(amount, Amount) and (amount.unit == "minutes" or not is_exact)


def epochs_in(steps: int, data: PreviewData) -> float:
    """Return the epochs of a number of steps."""
    # Imported late, because opening the window does not need it.
    from onetrainer.preview.dataset_preview import epochs_of

    return epochs_of(data.preview.batches, steps)


def times_due(
    value: object, data: PreviewData | None, steps: int, seconds: float = 0.0
) -> int | None:
    """Return how often an interval ends within some steps; None if that is not known."""
    amount = amount_of(value)
    if isinstance(amount, Amount) and amount.unit != "minutes":
        return intervals_in(amount, steps, data.preview.batches) if data is not None else None
    every = steps_in(value, data, seconds)
    return None if every is None else steps // every if every else 0
