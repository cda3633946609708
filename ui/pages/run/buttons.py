"""Buttons of the run page; a disabled one says why in its tooltip."""

import tkinter as tk
from collections.abc import Callable

from ui.context import Context
from ui.widgets.widgets import Button, ButtonKind

_NOT_RUNNING = "No run is in progress."
_PATIENCE = (
    "Trains the remaining steps. First raise “Early stopping after” (validation.patience) in "
    "config.json of the run; otherwise it stops again"
)


class RunButtons:
    """Pause or Resume, Stop (then Kill), Sample now, Save now, Open folder."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        kit, act = context.kit, context.act
        self.outer = kit.frame(parent, ground="window")
        self._shape: tuple[bool, bool] | None = None

        def button(
            text: str, name: str, command: Callable[[], None], kind: ButtonKind = "plain"
        ) -> Button:
            result = kit.button(self.outer, text, command, kind=kind, name=name, ground="window")
            result.widget.pack(side="left", padx=(kit.px(8), 0))
            return result

        self._sample = button("Sample now", "sample now", lambda: act.send("sample"))
        self._save = button("Save now", "save now", lambda: act.send("save"))
        self._pause = button("Pause", "pause", lambda: act.send("pause"))
        self._resume = button("Resume", "resume", act.resume, "primary")
        self._stop = button("Stop", "stop", lambda: act.send("stop"))
        self._kill = button("Kill now", "kill", act.kill)
        self._open = button("Open folder", "open folder", self._open_folder)
        self._sample.describe("Generates samples after this step")
        self._save.describe("Saves a checkpoint and the trained file, then continues")
        self._pause.describe("Saves a checkpoint and frees the GPU; “Resume” continues from there")
        self._stop.describe("Saves a checkpoint and the trained file, then stops")
        self._kill.describe("Stops the worker at once; progress since the last checkpoint is lost")

    def refresh(self) -> None:
        """Enable the buttons that apply now."""
        session = self._context.session
        if session.folder is None:
            self.outer.pack_forget()
            return
        if not self.outer.winfo_manager():
            self.outer.pack(side="right", anchor="s")
        is_running = session.is_running
        pending_command = session.pending_command.name if session.pending_command else ""
        busy = f"Waiting for the worker to {pending_command}." if pending_command else ""
        reason = busy if is_running else _NOT_RUNNING
        for button in (self._sample, self._save, self._pause, self._stop):
            button.enable(reason)
        self._stop.set_text("Stopping…" if pending_command == "stop" else "Stop")
        self._pause.set_text("Pausing…" if pending_command == "pause" else "Pause")
        self._resume.enable(self._why_not_resume())
        self._resume.describe(_PATIENCE if session.state.is_early_end else "")
        self._open.enable("" if session.folder else "There is no run yet.")
        _show(self._kill, session.can_kill, before=self._open)
        _show(self._resume, not is_running and session.folder is not None, before=self._stop)
        _show(self._pause, is_running, before=self._stop)
        self._ignore_double_click((is_running, session.can_kill))

    def _ignore_double_click(self, shape: tuple[bool, bool]) -> None:
        """Ignore the second half of a double click once buttons have moved."""
        if self._shape is not None and shape != self._shape:
            for button in (
                self._sample,
                self._save,
                self._pause,
                self._resume,
                self._stop,
                self._kill,
                self._open,
            ):
                button.ignore_clicks()
        self._shape = shape

    def _why_not_resume(self) -> str:
        session = self._context.session
        if session.has_worker:
            return "The worker is shutting down."
        if session.folder is None:
            return "There is no run yet."
        if session.state.status == "finished" and not session.state.is_early_end:
            return "This run has finished all its steps."
        return ""

    def _open_folder(self) -> None:
        folder = self._context.session.folder
        if folder is not None:
            self._context.act.open_path(folder.path)


def _show(button: Button, is_shown: bool, before: Button) -> None:
    widget = button.widget
    if is_shown and not widget.winfo_manager():
        widget.pack(side="left", padx=(8, 0), before=before.widget)
    elif not is_shown and widget.winfo_manager():
        widget.pack_forget()
