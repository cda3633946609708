"""Status line: problems on the left, the run on the right."""

from tkinter import ttk

from onetrainer.errors import Problem
from onetrainer.messages.formatting import counted
from ui.background.session import Session
from ui.context import Context
from ui.progress.units import format_speed, format_time
from ui.widgets.placing import show


class Footer:
    """Status line with a button for the problems and one for the run."""

    def __init__(self, context: Context) -> None:
        widgets, act = context.widgets, context.act
        self.outer = widgets.frame(context.root, ground="side")
        pad = widgets.px(14)
        self._problems = ttk.Button(self.outer, style="QuietSide.TButton")
        self._problems.configure(command=lambda: act.jump_to_problem(1))
        self._gap = widgets.px(8), widgets.px(4)
        widgets.name(self._problems, "problems")
        self._run = ttk.Button(self.outer, style="QuietSide.TButton")
        self._run.configure(command=lambda: act.show_page("run"))
        self._bar = widgets.progress(self.outer, ground="side", height=6)
        self._bar.configure(length=widgets.px(160))
        widgets.name(self._run, "run line")
        self._pad = pad
        self._found: list[Problem] = []
        self._is_running = False

    def show_problems(self, problems: list[Problem]) -> None:
        """Show the number of problems."""
        self._found = problems
        self._show_message()

    def show_run(self, session: Session) -> None:
        """Show the status of the run; nothing without one."""
        has_run = session.folder is not None
        self._is_running = has_run and session.state.status in ("starting", "running")
        self._show_message()
        show(self._bar, has_run, side="right", padx=(0, self._pad))
        show(self._run, has_run, side="right", padx=self._pad / 2)
        if has_run:
            self._run.configure(text=run_line(session))
            self._bar.set(session.state.fraction)

    def _show_message(self) -> None:
        text = problems_line(self._found, is_running=self._is_running)
        self._problems.configure(text=text)
        show(self._problems, bool(text), side="left", padx=(self._gap[0], 0), pady=self._gap[1])


def problems_line(problems: list[Problem], *, is_running: bool) -> str:
    """Return the number of problems, or that there are none; "" for none during a run."""
    kinds = [problem.severity for problem in problems]
    if "error" in kinds:
        return f"{counted(kinds.count('error'), 'problem')} · F8 goes to the next"
    if "missing" in kinds:
        return f"{counted(kinds.count('missing'), 'setting')} to fill in · F8 goes to the next"
    if "warning" in kinds:
        return f"{counted(kinds.count('warning'), 'warning')} · F8 goes to the next"
    if is_running:
        return ""
    return "Checking files…" if "pending" in kinds else "Ready to start"


def run_line(session: Session) -> str:
    """Return name, activity and progress of the displayed run."""
    state = session.state
    progress = state.progress
    parts = [session.folder.name if session.folder else "", session.activity]
    if state.total_steps:
        parts.append(f"step {state.step:,} of {state.total_steps:,}")
    stall = session.stall
    if stall is not None:
        parts.append(stall.text)
    elif progress is not None and state.status == "running" and not session.pending_command:
        parts.append(format_speed(progress.steps_per_second))
        if progress.eta_seconds >= 0:
            parts.append(f"{format_time(progress.eta_seconds)} left")
    return "  ·  ".join(part for part in parts if part)
