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
    "discard": "Stops after this step; keeps the checkpoints there are, and writes no file",
}
_LABELS = {"stop": "Stop and save", "discard": "Stop without saving"}
_LEAVING = {"pause": "Pausing…", "stop": "Stopping…", "discard": "Stopping…"}
_NOT_RUNNING = "No run is in progress."
_PATIENCE = (
    "Trains the remaining steps. First raise “Early stopping after” (validation.patience) in "
    "config.json of the run; otherwise it stops again"
)


class RunButtons:
    """Pause or Resume, Stop with and without saving, Sample now, Save now, Open folder."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets, act = context.widgets, context.act
        self.outer = widgets.frame(parent, ground="window")
        self._shape: tuple[bool, str] | None = None
        commands: dict[str, Callable[[], None]] = {
            "sample now": lambda: act.send("sample"),
            "save now": lambda: act.send("save"),
            "pause": lambda: act.send("pause"),
            "resume": act.resume,
            "stop": lambda: act.send("stop"),
            "discard": lambda: act.send("discard"),
            "open folder": self._open_folder,
        }
        self._buttons: dict[str, Button] = {}
        for name, command in commands.items():
            button = widgets.button(
                self.outer,
                _LABELS.get(name, name.capitalize()),
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
        busy = "The run is about to end." if pending_command else ""
        for name in ("sample now", "save now", "pause"):
            buttons[name].enable(busy if is_running else _NOT_RUNNING)
        for name in ("stop", "discard"):  # may be pressed again: the first press may not be enough
            buttons[name].enable("" if is_running else _NOT_RUNNING)
        for name, text in _LEAVING.items():
            label = _LABELS.get(name, name.capitalize())
            buttons[name].set_text(text if pending_command == name else label)
        buttons["resume"].enable(self._why_not_resume())
        buttons["resume"].describe(_PATIENCE if session.state.is_early_end else "")
        for name, is_shown, before in (
            ("resume", not is_running, "stop"),
            ("pause", is_running, "stop"),
        ):
            place = {"side": "left", "padx": (8, 0), "before": buttons[before].widget}
            show(buttons[name].widget, is_shown, **place)
        # Ignore the second half of a double click once buttons have moved.
        shape = (is_running, pending_command)
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
