"""Banner of the run page: how the run ended and what to do next, or its warnings."""

import tkinter as tk
from dataclasses import dataclass, field

from onetrainer.errors import sentence
from onetrainer.run.client import SILENCE
from onetrainer.run.events import Failed, Finished, Stopped
from onetrainer.run.run_folder import RunFolder
from ui.context import Context
from ui.messages.problems import capitalized
from ui.pages.run.remedies import Remedy, remedy_of
from ui.progress.run_state import RunState
from ui.theme.palette import Role
from ui.widgets.placing import show, wrap_within

_MAX_LINES = 5


@dataclass(frozen=True)
class Message:
    """Content of the banner. log: the last lines of the worker log. remedy: a button for it."""

    tone: Role
    title: str
    text: str = ""
    log: list[str] = field(default_factory=list)
    can_open_output: bool = False
    can_open_log: bool = False
    can_end: bool = False
    remedy: Remedy | None = None


class RunBanner:
    """Banner at the top of the page, hidden while there is no message."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets = context.widgets
        self._outer, inner = widgets.card(parent)
        self._stripe = tk.Frame(inner, width=widgets.px(4))
        self._stripe.pack(side="left", fill="y", padx=(0, widgets.px(14)))
        column = widgets.frame(inner)
        column.pack(side="left", fill="both", expand=True)
        self._title = widgets.label(column, style="Heading")
        self._title.pack(anchor="w")
        self._text = widgets.label(column, wrap=700)
        self._log = widgets.label(column, style="Mono", wrap=860)
        self._buttons = widgets.frame(column)
        self._open_output = widgets.button(
            self._buttons, "Open output folder", self._show_output, name="open output"
        )
        self._open_log = widgets.button(self._buttons, "Open log", self._show_log, name="open log")
        self._remedy = widgets.button(
            self._buttons, "", self._do_remedy, kind="primary", name="remedy"
        )
        self._report = widgets.button(
            self._buttons, "Make report", self._make_report, name="banner report"
        )
        self._end = widgets.button(
            self._buttons, "End the process", context.act.kill, kind="danger", name="end process"
        )
        self._message: Message | None = None
        wrap_within(column, self._text, self._log)

    @property
    def has_remedy(self) -> bool:
        """Whether it shows its main button."""
        return self._message is not None and self._message.remedy is not None

    @property
    def text(self) -> str:
        """Text of the banner; "" while it is hidden."""
        if not self._outer.winfo_manager():
            return ""
        return "\n".join(part.text for part in (self._title, self._text, self._log) if part.text)

    def refresh(self) -> None:
        """Show the current message."""
        message = _message(self._context)
        if message == self._message:
            return
        self._message = message
        if message is None:
            self._outer.pack_forget()
            return
        widgets = self._context.widgets
        widgets.theme.paint(self._stripe, bg=message.tone)
        self._title.say(message.title)
        for label, text in (
            (self._text, message.text),
            (self._log, "\n".join(message.log[-_MAX_LINES:])),
        ):
            label.say(text)
            label.pack_forget()  # packed again below, in this order
            show(label, bool(text), anchor="w", pady=(widgets.px(4), 0))
        self._buttons.pack_forget()
        if message.remedy is not None:
            self._remedy.set_text(message.remedy.label)
        shown = {
            self._remedy: message.remedy is not None,
            self._open_output: message.can_open_output,
            self._open_log: message.can_open_log,
            self._report: message.can_open_log,
            self._end: message.can_end,
        }
        for button, is_shown in shown.items():
            button.widget.pack_forget()  # packed in this order
            show(button.widget, is_shown, side="left", padx=(0, widgets.px(8)))
        show(self._buttons, any(shown.values()), anchor="w", pady=(widgets.px(10), 0))
        first = self._outer.master.winfo_children()[1]
        show(self._outer, True, fill="x", pady=(0, widgets.px(14)), before=first)

    def _show_output(self) -> None:
        folder = self._context.session.folder
        if folder is not None:
            outputs = self._context.session.state.outputs
            target = (folder.path / outputs[0]).parent if outputs else folder.path
            self._context.act.open_path(target)

    def _show_log(self) -> None:
        folder = self._context.session.folder
        if folder is not None:
            self._context.act.open_path(folder.log)

    def _do_remedy(self) -> None:
        if self._message is not None and self._message.remedy is not None:
            self._message.remedy.do()

    def _make_report(self) -> None:
        folder = self._context.session.folder
        if folder is not None:
            self._context.act.report(folder.path)


def _message(context: Context) -> Message | None:
    session = context.session
    state, folder = session.state, session.folder
    if folder is None:
        return None
    if state.unexpected_exit is not None:
        left = state.unexpected_exit
        where = f"continues from {folder.resume_place()}"
        resume = f"“Resume” {where if folder.newest_step() else 'starts from the beginning'}."
        if left.was_ended_here:
            remedy = remedy_of(context, folder, "killed")
            return Message("warning", "The process was ended", resume, remedy=remedy)
        return Message(
            "danger",
            "The worker stopped unexpectedly",
            f"{left.what} {resume}",
            [] if left.failure in ("killed", "out of memory") else left.log,  # nothing of a kill
            can_open_log=True,
            remedy=remedy_of(context, folder, left.failure),
        )
    match state.ending:
        case Failed() as failed:
            parts = (failed.what, failed.expected, failed.remedy)
            title, *rest = [sentence(capitalized(part)) for part in parts if part]
            remedy = remedy_of(context, folder, failed.failure, failed)
            return Message("danger", title, " ".join(rest), can_open_log=True, remedy=remedy)
        case Finished() as done:
            return _finished_message(done, state, folder)
        case Stopped() as stopped:
            return stopped_message(stopped, folder)
    if session.can_kill:
        return Message(
            "warning",
            f"The worker has not answered for {SILENCE:.0f} s",
            "It may be in a long step, or it hangs. “End the process” ends it at once; "
            f"{folder.lost_text()} is lost then, and “Resume” continues from "
            f"{folder.resume_place()}.",
            can_open_log=True,
            can_end=True,
        )
    guard = _guard_warning(state)
    if guard:
        return Message(
            "warning", "Warning from the guard", "\n".join([guard, *state.warnings[-2:]])
        )
    if state.warnings:
        return Message("warning", "Warnings", "\n".join(state.warnings[-3:]))
    return None


def _finished_message(done: Finished, state: RunState, folder: RunFolder) -> Message:
    """Describe a run that ended by itself: its outputs and the verdict of the guard."""
    guard = _guard_warning(state)
    lines, title = [guard, *done.summary], "Training finished"
    if state.is_guarded_end:
        title = "Training stopped by the guard"
    elif state.is_early_end:
        title = "Training ended early"
        lines.append(
            f"“Early stopping after” (validation.patience) in {folder.config} was reached. Raise "
            "it there and choose “Resume” to train the remaining steps."
        )
    lines += [str(folder.path / output) for output in done.outputs]
    # The summary repeats the verdict of the guard.
    text = "\n".join(line for line in dict.fromkeys(lines) if line)
    return Message("warning" if guard else "good", title, text, can_open_output=True)


def _guard_warning(state: RunState) -> str:
    """Return the warning of the guard; "" if it sees no problem."""
    newest = state.rewards.newest
    return newest.message if newest is not None and newest.verdict == "hacking" else ""


def stopped_message(stopped: Stopped, folder: RunFolder) -> Message:
    """Describe a run that was stopped or paused: what is saved and where."""
    text = "No step was trained. “Resume” starts from the beginning."
    title = "Paused" if stopped.reason == "pause" else "Stopped"
    if stopped.reason == "discard":
        title = f"Stopped after step {stopped.step:,}, without saving"
        text = f"“Resume” continues from {folder.resume_place()}."
    elif stopped.step:
        text = f"Saved up to step {stopped.step:,}. “Resume” continues from there."
    because = [sentence(capitalized(stopped.because))] if stopped.because else []
    lines = [*because, text, *(str(folder.path / output) for output in stopped.outputs)]
    has_output = folder.output.is_dir() and any(folder.output.iterdir())
    return Message("warning", title, "\n".join(lines), can_open_output=has_output)
