"""Buttons of the run page; a disabled one says why in its tooltip."""

import tkinter as tk
from collections.abc import Callable

from ui.context import Context
from ui.widgets.button import Button
from ui.widgets.placing import show
from ui.widgets.widgets import focused

_ABOUT = {
    "sample now": "Generates samples after this step",
    "save now": "Saves a checkpoint and the trained file, then continues",
    "pause": "Saves a checkpoint and frees the GPU; “Resume” continues from there",
    "fork": "Starts a new run that goes on from a checkpoint of this one",
    "stop": "Saves a checkpoint and the trained file, then stops",
    "discard": "Stops after this step; keeps the checkpoints there are, and writes no file",
}
_LABELS = {"fork": "Fork…", "stop": "Stop and save", "discard": "Stop without saving"}
_LEAVING = {"pause": "Pausing…", "stop": "Stopping…", "discard": "Stopping…"}
_GAP = 8
# Width that a title needs to be read next to the buttons.
_TITLE_ROOM = 200
_NOT_RUNNING = "No run is in progress."
_PATIENCE = (
    "Trains the remaining steps. First raise “Early stopping after”, to which a button leads; "
    "otherwise it stops again"
)


class RunButtons:
    """Pause or Resume, Stop with and without saving, Sample now, Save now, Fork, Open folder.

    They stand at the right of `head` where the title has room next to them, else below it.
    """

    def __init__(self, context: Context, head: tk.Misc) -> None:
        self._context = context
        self._head = head
        widgets, act = context.widgets, context.act
        # Packed before the heading, so that a long title is cut off and no button is.
        self._box = widgets.frame(head, ground="window")
        self._box.pack(side="right", anchor="s")
        self.outer = widgets.frame(self._box, ground="window")
        self._rows = [widgets.frame(self.outer, ground="window") for _ in range(2)]
        self._rows[0].pack(anchor="w")
        self._placed: tuple[bool, bool, bool] | None = None
        self._shape: tuple[bool, str] | None = None
        commands: dict[str, Callable[[], None]] = {
            "sample now": lambda: act.send("sample"),
            "save now": lambda: act.send("save"),
            "pause": lambda: act.send("pause"),
            "resume": act.resume,
            "stop": lambda: act.send("stop"),
            "discard": lambda: act.send("discard"),
            "fork": act.fork,
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
            self._buttons[name] = button.describe(_ABOUT.get(name, ""))
        head.bind("<Configure>", lambda _: self._place(), add="+")

    @property
    def room_beside(self) -> int:
        """Width that the buttons leave to the title, in pixels."""
        is_beside = self._context.session.folder and self._box.pack_info()["side"] == "right"
        used = self.outer.winfo_reqwidth() if is_beside else 0
        return self._head.winfo_width() - used - self._context.widgets.px(_GAP)

    def refresh(self, *, has_remedy: bool) -> None:
        """Enable the buttons that apply now. has_remedy: Whether the banner has a main button."""
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
        buttons["resume"].enable(self._why_not_resume(has_remedy=has_remedy))
        # One main button at a time; that of a banner resumes the run as well.
        buttons["resume"].set_kind("plain" if has_remedy else "primary")
        buttons["fork"].enable(self._context.act.start_blocked_reason())
        buttons["resume"].describe(_PATIENCE if session.state.is_early_end else "")
        self._place()
        # Ignore the second half of a double click once buttons have moved.
        shape = (is_running, pending_command)
        if self._shape is not None and shape != self._shape:
            for button in buttons.values():
                button.ignore_clicks()
        self._shape = shape

    def _place(self) -> None:
        """Put the buttons that apply beside the title, or below it in one row or two."""
        px, is_running = self._context.widgets.px, self._context.session.is_running
        hidden, instead = ("resume", "pause") if is_running else ("pause", "resume")
        shown = [button.widget for name, button in self._buttons.items() if name != hidden]
        needed = sum(widget.winfo_reqwidth() + px(_GAP) for widget in shown)
        room = self._head.winfo_width()
        # Before it is on the screen, its width is not known.
        is_below, is_wrapped = 1 < room < needed + px(_TITLE_ROOM), 1 < room < needed
        if self._placed == (is_below, is_wrapped, is_running):
            return
        self._placed = is_below, is_wrapped, is_running
        if is_below:
            self._box.pack(side="bottom", anchor="w", pady=(px(_GAP), 0))
        else:
            self._box.pack(side="right", anchor="s", pady=0)
        self._buttons[hidden].widget.pack_forget()
        second = len(shown) // 2 if is_wrapped else len(shown)
        for index, widget in enumerate(shown):
            widget.pack_forget()
            gap = 0 if index in (0, second) else px(_GAP)
            widget.pack(in_=self._rows[index >= second], side="left", padx=(gap, 0))
        if _has_keyboard(self._buttons[hidden].widget):
            self._buttons[instead].take_focus()
        self._rows[1].pack_forget()
        show(self._rows[1], is_wrapped, anchor="w", pady=(px(_GAP), 0))

    def _why_not_resume(self, *, has_remedy: bool) -> str:
        session = self._context.session
        if session.has_worker:
            return "The worker is shutting down."
        if session.state.is_guarded_end and has_remedy:
            return "The guard would stop it again at once. “Go on, and only warn” does not."
        return "" if session.can_resume else "This run has finished all its steps."

    def _open_folder(self) -> None:
        folder = self._context.session.folder
        if folder is not None:
            self._context.act.open_path(folder.path)


def _has_keyboard(widget: tk.Misc) -> bool:
    """Return whether a control has the keyboard, or will have it when its window has."""
    return (focused(widget) or widget.focus_lastfor()) is widget
