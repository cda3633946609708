"""Log of the window's own defects: written to a file and shown in the message bar, never fatal."""

import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from onetrainer.errors import UserError
from onetrainer.redaction import without_tokens
from onetrainer.run.user_folder import user_folder

_MAX_LOG_BYTES = 512 * 1024


class ErrorLog:
    """Logs exceptions of callbacks. tracebacks: of all defects so far, for tests."""

    def __init__(self, show_message: Callable[[str], None]) -> None:
        self._show_message = show_message
        self.tracebacks: list[str] = []

    @property
    def log(self) -> Path:
        """Path of the log file."""
        return user_folder() / "window.log"

    def report(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """Log an exception; Tk's hook for exceptions of callbacks."""
        if isinstance(error, UserError):
            self._show_message(str(error))
            return
        text = without_tokens("".join(traceback.format_exception(kind, error, trace)))
        self.tracebacks.append(text)
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            mode = "w" if self.log.exists() and self.log.stat().st_size > _MAX_LOG_BYTES else "a"
            with self.log.open(mode, encoding="utf-8") as handle:
                handle.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}\n{text}\n")
        except OSError:
            sys.stderr.write(text)
        what = without_tokens(str(error))
        self._show_message(f"Unexpected error in the window ({what}). Details are in {self.log}")
