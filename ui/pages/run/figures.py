"""Key figures of a run: phase, progress, speed, time left, memory, loss or reward."""

import tkinter as tk
from tkinter import ttk

from ui.background.session import Session
from ui.progress.rewards import format_score
from ui.progress.run_state import RunState, format_bytes, format_speed, format_time
from ui.widgets.widgets import Kit

_NONE = "—"


class RunFigures:
    """Card with the current activity, a progress bar and a row of figures."""

    def __init__(self, kit: Kit, parent: tk.Misc) -> None:
        self.outer, inner = kit.card(parent)
        top = kit.frame(inner)
        top.pack(fill="x")
        self._phase: ttk.Label = kit.label(top, style="Heading")
        self._phase.pack(side="left")
        self._progress: ttk.Label = kit.label(top, style="Heading")
        self._progress.pack(side="right")
        self._bar = kit.progress(inner, height=10)
        self._bar.pack(fill="x", pady=(kit.px(8), kit.px(12)))
        kit.name(self._bar, "progress")
        row = kit.frame(inner)
        row.pack(fill="x")
        self._values: dict[str, ttk.Label] = {}
        self._names: dict[str, ttk.Label] = {}
        names = ("Step", "Epoch", "Speed", "Time left", "Memory", "Loss", "Learning rate")
        for column, name in enumerate(names):
            row.grid_columnconfigure(column, weight=1, uniform="figures")
            self._names[name] = kit.label(row, name, style="SmallDim")
            self._names[name].grid(row=0, column=column, sticky="w")
            value = kit.label(row, _NONE, style="Heading")
            value.grid(row=1, column=column, sticky="w")
            self._values[name] = value

    def refresh(self, session: Session) -> None:
        """Show the current figures."""
        state = session.state
        self._phase.configure(text=activity(session))
        fraction = _progress(state)
        self._progress.configure(text=f"{fraction:.0%}" if state.total_steps else "")
        self._bar.set(fraction)
        self._names["Loss"].configure(text="Reward" if state.rewards.step else "Loss")
        for name, text in _figures(state).items():
            if self._values[name].cget("text") != text:
                self._values[name].configure(text=text)


def activity(session: Session) -> str:
    """Describe what the run is doing, in a line."""
    if session.pending_command is not None:
        verb = "Stopping" if session.pending_command.name == "stop" else "Pausing"
        return f"{verb}: finishing this step, then saving…"
    text = session.state.status_text()
    quiet = session.silent_seconds
    if quiet:
        return f"{text} · no message for {format_time(quiet)}"
    phase = session.state.phase
    if session.state.status == "running" and phase is not None and phase.detail:
        return f"{text} · {phase.detail}"
    return text


def _progress(state: RunState) -> float:
    """Return the progress of the run; before training, that of the current phase."""
    phase = state.phase
    is_before = state.progress is None and state.status == "running"
    if is_before and phase is not None and phase.total > 0 and phase.name != "training":
        return phase.done / phase.total
    return state.fraction


def _figures(state: RunState) -> dict[str, str]:
    progress = state.progress
    total = state.total_steps
    figures = {
        "Step": f"{state.step:,} / {total:,}" if total else _NONE,
        "Epoch": _NONE,
        "Speed": _NONE,
        "Time left": _NONE,
        "Memory": _NONE,
        "Loss": _NONE,
        "Learning rate": _NONE,
    }
    if progress is None:
        return figures
    is_running = state.status == "running"
    figures["Epoch"] = f"{progress.epoch:,}"
    rewarded = state.rewards.step
    figures["Loss"] = format_score(rewarded.reward) if rewarded else f"{progress.loss:.4f}"
    figures["Learning rate"] = f"{progress.lr:.2e}".replace("e-0", "e-")
    figures["Speed"] = format_speed(progress.steps_per_second) or _NONE
    if is_running and progress.eta_seconds >= 0:
        figures["Time left"] = format_time(progress.eta_seconds)
    if progress.memory_bytes:
        figures["Memory"] = format_bytes(progress.memory_bytes)
    return figures
