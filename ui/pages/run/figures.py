"""Key figures of a run: phase, progress, speed, time left, memory, loss or reward."""

import tkinter as tk

from onetrainer.run.commands import Leaving
from ui.background.session import Session
from ui.model.form_fields import edit_text
from ui.progress.rewards import format_score
from ui.progress.run_state import RunState
from ui.progress.units import format_bytes, format_speed, format_time
from ui.widgets.widgets import Label, Widgets

_NONE = "—"
_LEAVING: dict[Leaving, str] = {
    "pause": "Pausing: finishing this step, then saving…",
    "stop": "Stopping: finishing this step, then saving…",
    "discard": "Stopping: finishing this step, without saving…",
}


class RunFigures:
    """Card with the current activity, a progress bar and a row of figures."""

    def __init__(self, widgets: Widgets, parent: tk.Misc) -> None:
        self.outer, inner = widgets.card(parent)
        top = widgets.frame(inner)
        top.pack(fill="x")
        self._phase = widgets.label(top, style="Heading")
        self._phase.pack(side="left")
        self._progress = widgets.label(top, style="Heading")
        self._progress.pack(side="right")
        self._bar = widgets.progress(inner, height=10)
        self._bar.pack(fill="x", pady=(widgets.px(8), widgets.px(12)))
        widgets.name(self._bar, "progress")
        row = widgets.frame(inner)
        row.pack(fill="x")
        self._labels: list[tuple[Label, Label]] = []
        for column, (name, text) in enumerate(_figures(RunState())):
            row.grid_columnconfigure(column, weight=1, uniform="figures")
            labels = (
                widgets.label(row, name, style="SmallDim"),
                widgets.label(row, text, style="Heading"),
            )
            for line, label in enumerate(labels):
                label.grid(row=line, column=column, sticky="w")
            self._labels.append(labels)

    def refresh(self, session: Session) -> None:
        """Show the current figures."""
        state = session.state
        self._phase.say(activity(session))
        fraction = _progress(state)
        self._progress.say(f"{fraction:.0%}" if state.total_steps else "")
        self._bar.set(fraction)
        for labels, texts in zip(self._labels, _figures(state), strict=True):
            for label, text in zip(labels, texts, strict=True):
                label.say(text)


def activity(session: Session) -> str:
    """Describe what the run is doing, in a line."""
    if session.pending_command is not None:
        return _LEAVING[session.pending_command.name]
    stall, quiet = session.stall, session.silent_seconds
    if stall is not None:
        return f"{session.activity} · {stall.text}"
    if quiet:
        return f"{session.activity} · no message for {format_time(quiet)}"
    return session.activity


def _progress(state: RunState) -> float:
    """Return the progress of the run; before training, that of the current phase."""
    phase = state.phase
    is_before = state.progress is None and state.status == "running"
    if is_before and phase is not None and phase.total > 0 and phase.name != "training":
        return phase.done / phase.total
    return state.fraction


def _figures(state: RunState) -> list[tuple[str, str]]:
    """Return names and texts of the figures."""
    progress, rewarded, total = state.progress, state.rewards.step, state.total_steps
    epoch = speed = left = memory = loss = rate = ""
    if progress is not None:
        epoch, speed = f"{progress.epoch + 1:,}", format_speed(progress.steps_per_second)
        if state.status == "running" and progress.eta_seconds >= 0:
            left = format_time(progress.eta_seconds)
        memory = format_bytes(progress.memory_bytes) if progress.memory_bytes else ""
        loss = format_score(rewarded.reward) if rewarded else f"{progress.loss:.4f}"
        rate = edit_text(float(f"{progress.lr:.2e}"))
    figures = {
        "Step": f"{state.step:,} / {total:,}" if total else "",
        "Epoch": epoch,
        "Speed": speed,
        "Time left": left,
        "Memory": memory,
        "Reward" if rewarded else "Loss": loss,
        "Learning rate": rate,
    }
    return [(name, text or _NONE) for name, text in figures.items()]
