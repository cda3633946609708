"""The window's own defects: written to a log and told in one quiet bar, never fatal."""

import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from onetrainer.errors import UserError
from onetrainer.run.user_folder import user_folder

_LARGEST_LOG = 512 * 1024


class ErrorLog:
    """Catches what callbacks raise. `kept` holds the last lines of each, for tests and reports."""

    def __init__(self, show_message: Callable[[str], None]) -> None:
        self._show_message = show_message
        self.tracebacks: list[str] = []

    @property
    def log(self) -> Path:
        """Where they are written."""
        return user_folder() / "window.log"

    def report(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """Tk's hook for exceptions of callbacks."""
        if isinstance(error, UserError):
            self._show_message(str(error))
            return
        text = "".join(traceback.format_exception(kind, error, trace))
        self.tracebacks.append(text)
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            mode = "w" if self.log.exists() and self.log.stat().st_size > _LARGEST_LOG else "a"
            with self.log.open(mode, encoding="utf-8") as handle:
                handle.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}\n{text}\n")
        except OSError:
            sys.stderr.write(text)
        self._show_message(
            f"Something in the window went wrong ({error}). It is written in {self.log}"
        )
