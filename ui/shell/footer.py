"""The line at the bottom of every page: problems on the left, the run on the right."""

import tkinter as tk
from collections.abc import Callable
from tkinter import ttk

from onetrainer.errors import Problem
from ui.kit import Kit
from ui.run_state import RunState, duration, speed


class Footer:
    """Problems that can be clicked, and the current run in one line."""

    def __init__(
        self,
        kit: Kit,
        parent: tk.Misc,
        next_problem: Callable[[], None],
        to_run: Callable[[], None],
    ) -> None:
        self.outer = kit.frame(parent, ground="side")
        pad = kit.px(14)
        self._problems = ttk.Button(
            self.outer, style="QuietSide.TButton", command=next_problem, text=""
        )
        self._problems.pack(side="left", padx=(kit.px(8), 0), pady=kit.px(4))
        kit.name(self._problems, "problems")
        self._run = ttk.Button(self.outer, style="QuietSide.TButton", command=to_run)
        self._bar = kit.progress(self.outer, ground="side", height=6)
        self._bar.configure(width=kit.px(160) / kit.theme.scale)
        kit.name(self._run, "run line")
        self._pad = pad

    def show_problems(self, problems: list[Problem]) -> None:
        """Says how many problems there are."""
        errors = sum(problem.severity == "error" for problem in problems)
        warnings = len(problems) - errors
        if errors:
            text = f"⚠ {_count(errors, 'problem')} · F8 goes to the next"
        elif warnings:
            text = f"⚠ {_count(warnings, 'warning')} · F8 goes to the next"
        else:
            text = "✓ Ready to start"
        self._problems.configure(text=text)

    def show_run(self, name: str, state: RunState | None) -> None:
        """Says how the run stands; nothing without one."""
        if state is None:
            self._run.pack_forget()
            self._bar.pack_forget()
            return
        self._run.configure(text=_run_line(name, state))
        self._bar.set(state.share)
        if not self._run.winfo_manager():
            self._bar.pack(side="right", padx=(0, self._pad))
            self._run.pack(side="right", padx=self._pad / 2)


def _run_line(name: str, state: RunState) -> str:
    parts = [name, state.in_words()]
    progress = state.progress
    if state.total_steps:
        parts.append(f"step {state.step} of {state.total_steps}")
    if progress is not None and state.status == "running":
        parts.append(speed(progress.steps_per_second))
        if progress.eta_seconds >= 0:
            parts.append(f"{duration(progress.eta_seconds)} left")
    return "  ·  ".join(part for part in parts if part)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"
