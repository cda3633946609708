"""Saving of captions and masks from the page, and what is said about it."""

import tkinter as tk
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from onetrainer.edits.history import Batch
from onetrainer.edits.saving import TAKE_BACK, Change, Saved, as_now
from onetrainer.errors import some_of
from onetrainer.messages.formatting import counted
from ui.context import Context
from ui.dialogs.dialogs import once_free, show_error
from ui.dialogs.edit_dialogs import ask_overwrite, ask_version
from ui.editing.saver import Saver, Steps, Version

_EXAMPLES = 3


class Writing:
    """Saves in the background, and asks before it writes over another program's work.

    Args:
        changed: Called when `steps`, which can be undone and redone, have changed.
        written: Called with files whose content may be another one now.
    """

    def __init__(
        self, context: Context, changed: Callable[[], None], written: Callable[[list[Path]], None]
    ) -> None:
        self._context, self._written = context, written
        self._saver = Saver(context.widgets.jobs, partial(show_error, context), changed)

    @property
    def steps(self) -> Steps:
        """What can be undone and redone."""
        return self._saver.steps

    def refresh(self) -> None:
        """Read what can be undone; other windows save too."""
        self._saver.refresh()

    def read(self, path: Path) -> bytes | None:
        """Return what a file holds, or will once what waits is saved. Raises OSError."""
        return self._saver.read(path)

    def settle(self) -> None:
        """Wait until all is saved."""
        self._saver.settle()

    def save(self, change: Change) -> None:
        """Save one file."""
        self.save_all([change], f"Save {change.path.name}")

    def save_made(self, path: Path, make: Callable[[], Change]) -> None:
        """Save one file whose change is slow to make."""
        self._saver.save_made(path, make, f"Save {path.name}", self._saved)

    def save_all(self, changes: Sequence[Change], about: str) -> None:
        """Save a batch."""
        self._saver.save(changes, about, self._saved)

    def undo(self) -> str:
        """Take back the last saving."""
        self._saver.undo(lambda saved: self._saved(saved, "Undone", self.steps.redo))
        return "break"

    def redo(self) -> str:
        """Take back the last undoing."""
        self._saver.redo(lambda saved: self._saved(saved, "Redone", self.steps.undo))
        return "break"

    def bind_keys(self, canvas: tk.Canvas) -> None:
        """Let a canvas undo and redo by the keys that would undo settings there otherwise."""
        canvas.bind("<Control-z>", lambda _: self.undo())
        for keys in ("<Control-Z>", "<Control-y>"):
            canvas.bind(keys, lambda _: self.redo())

    def choose_version(self, path: Path) -> None:
        """Let the user choose what a file held earlier, and give it that again."""

        def choose(versions: list[Version]) -> None:
            chosen = ask_version(self._context, path.name, versions)
            if chosen is None:
                return
            try:
                change = as_now(Change(path, None, chosen[1]))
            except OSError as error:
                self._context.act.show_message(f"Not written: {error}")
                return
            self.save_all([change], f"Restore {path.name}")

        def take(versions: list[Version]) -> None:
            once_free(self._context.root, partial(choose, versions))

        self._saver.versions(path, take)

    def _saved(self, saved: Saved, did: str = "", batch: Batch | None = None) -> None:
        """Say what became of a batch; ask about what has changed outside.

        did: "Undone" or "Redone", if it was `batch` that took another one back.
        """
        act = self._context.act
        if saved.failures:
            names = some_of([path.name for path, _ in saved.failures], _EXAMPLES)
            act.show_message(f"Not written: {names}: {saved.failures[0][1]}.")
        elif saved.written and batch is not None:
            about = batch.about.removeprefix(TAKE_BACK)
            act.show_message(f"{did}: {about} ({counted(len(saved.written), 'file')}).")
        elif len(saved.written) > 1:
            act.show_message(f"{counted(len(saved.written), 'file')} written.")
        elif not (saved.written or saved.conflicts):
            act.show_message("Nothing had to be written.")
        paths = [*saved.written, *(change.path for change in saved.conflicts)]
        paths += [path for path, _ in saved.failures]
        if paths:
            self._written(paths)
        if saved.conflicts and ask_overwrite(self._context, saved):
            try:
                changes = [as_now(change) for change in saved.conflicts]
            except OSError as error:
                act.show_message(f"Not written: {error}")
                return
            self.save_all(changes, "Write over what another program wrote")
