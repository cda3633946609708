"""The figures of runs as a table of text, a row for each step that was reported."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from onetrainer.run.event_log import read_all
from onetrainer.run.events import Evaluated, Event, Measured, Progress, Rewarded, Validated
from onetrainer.run.run_folder import RunFolder

_OF_PROGRESS = {
    "epoch": "epoch",
    "loss": "loss",
    "lr": "learning rate",
    "gradient_norm": "gradient norm",
    "steps_per_second": "steps per second",
    "memory_bytes": "memory, bytes",
}
_OF_MEASURED = {
    "images": "images of the step",
    "host_bytes": "RAM, bytes",
    "device_bytes": "held GPU memory, bytes",
    "temperature": "GPU temperature, °C",
    "power_watts": "GPU power, W",
}


def figures_table(runs: Sequence[RunFolder]) -> str:
    """Return the figures of some runs as CSV, whose first column names the run."""
    columns: dict[str, None] = {"run": None, "step": None}
    rows: list[dict[str, Any]] = []
    for run in runs:
        by_step: dict[int, dict[str, Any]] = {}
        for event in read_all(run.events):
            step, values = _values(event)
            if values:
                columns |= dict.fromkeys(values)
                by_step.setdefault(step, {"run": run.name, "step": step}).update(values)
        rows += [by_step[step] for step in sorted(by_step)]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _values(event: Event) -> tuple[int, dict[str, Any]]:
    """Return an event's step and its figures by column; those that are unknown are left out."""
    step, found = 0, {}
    match event:
        case Progress(step=step):
            found = {name: getattr(event, field) for field, name in _OF_PROGRESS.items()}
        case Measured(step=step):
            found = {name: getattr(event, field) for field, name in _OF_MEASURED.items()}
            found |= {f"learning rate of {n}": rate for n, rate in event.learning_rates.items()}
        case Validated(step=step):
            what = "" if event.weights == "sampling" else ", without EMA"
            found = {f"validation loss{what}": event.loss, f"its 95 % band{what}": event.error}
        case Rewarded(step=step):
            found = {"reward": event.reward, "spread of the reward": event.spread}
        case Evaluated(step=step):
            found = {"validation reward": event.reward, "its 95 % band (reward)": event.error}
    return step, {name: value for name, value in found.items() if value is not None}
