"""Buttons of the run page; a disabled one says why in its tooltip."""

import tkinter as tk
from collections.abc import Callable

from ui.context import Context
from ui.widgets.button import Button
from ui.widgets.placing import show

_ABOUT = {
    "sample now": "Generates samples after this step",
    "save now": "Saves a checkpoint and the trained file, then continues",
    "pause": "Saves a checkpoint and frees the GPU; “Resume” continues from there",
    "stop": "Saves a checkpoint and the trained file, then stops",
    "kill now": "Stops the worker at once; progress since the last checkpoint is lost",
}
_NOT_RUNNING = "No run is in progress."
_PATIENCE = (
    "Trains the remaining steps. First raise “Early stopping after” (validation.patience) in "
    "config.json of the run; otherwise it stops again"
)


class RunButtons:
    """Pause or Resume, Stop (then Kill), Sample now, Save now, Open folder."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets, act = context.widgets, context.act
        self.outer = widgets.frame(parent, ground="window")
        self._shape: tuple[bool, bool] | None = None
        commands: dict[str, Callable[[], None]] = {
            "sample now": lambda: act.send("sample"),
            "save now": lambda: act.send("save"),
            "pause": lambda: act.send("pause"),
            "resume": act.resume,
            "stop": lambda: act.send("stop"),
            "kill now": act.kill,
            "open folder": self._open_folder,
        }
        self._buttons: dict[str, Button] = {}
        for name, command in commands.items():
            button = widgets.button(
                self.outer,
                name.capitalize(),
                command,
                kind="primary" if name == "resume" else "plain",
                name=name,
                ground="window",
            )
            button.describe(_ABOUT.get(name, "")).widget.pack(side="left", padx=(widgets.px(8), 0))
            self._buttons[name] = button

    def refresh(self) -> None:
        """Enable the buttons that apply now."""
        session, buttons = self._context.session, self._buttons
        show(self.outer, session.folder is not None, side="right", anchor="s")
        if session.folder is None:
            return
        is_running = session.is_running
        pending_command = session.pending_command.name if session.pending_command else ""
        busy = f"Waiting for the worker to {pending_command}." if pending_command else ""
        for name in ("sample now", "save now", "pause", "stop"):
            buttons[name].enable(busy if is_running else _NOT_RUNNING)
        buttons["stop"].set_text("Stopping…" if pending_command == "stop" else "Stop")
        buttons["pause"].set_text("Pausing…" if pending_command == "pause" else "Pause")
        buttons["resume"].enable(self._why_not_resume())
        buttons["resume"].describe(_PATIENCE if session.state.is_early_end else "")
        for name, is_shown, before in (
            ("kill now", session.can_kill, "open folder"),
            ("resume", not is_running, "stop"),
            ("pause", is_running, "stop"),
        ):
            place = {"side": "left", "padx": (8, 0), "before": buttons[before].widget}
            show(buttons[name].widget, is_shown, **place)
        # Ignore the second half of a double click once buttons have moved.
        shape = (is_running, session.can_kill)
        if self._shape is not None and shape != self._shape:
            for button in buttons.values():
                button.ignore_clicks()
        self._shape = shape

    def _why_not_resume(self) -> str:
        session = self._context.session
        if session.has_worker:
            return "The worker is shutting down."
        if session.state.status == "finished" and not session.state.is_early_end:
            return "This run has finished all its steps."
        return ""

    def _open_folder(self) -> None:
        folder = self._context.session.folder
        if folder is not None:
            self._context.act.open_path(folder.path)
