"""Output in a terminal: results, and a status line that is overwritten."""

import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TextIO

from onetrainer.errors import EXIT_DONE
from onetrainer.json_file import json_text
from onetrainer.redaction import without_tokens
from onetrainer.run.events import Phase

_SECONDS_PER_STATUS = 10.0


def print_lines(lines: Iterable[str]) -> int:
    """Print lines and return the exit code of success."""
    for line in lines:
        sys.stdout.write(f"{without_tokens(line)}\n")
    return EXIT_DONE


def print_result(document: object, lines: Iterable[str], *, is_json: bool) -> int:
    """Print a result as JSON or as lines, and return the exit code of success."""
    if not is_json:
        return print_lines(lines)
    sys.stdout.write(f"{json_text(document)}\n")
    return EXIT_DONE


def phase_text(event: Phase) -> str:
    """Return what a worker is doing, for example "sampling 1/4 (step 3 of 20)"."""
    count = f" {event.done}/{event.total}" if event.total else ""
    return f"{event.name}{count}" + (f" ({event.detail})" if event.detail else "")


class Screen:
    """Writes permanent lines and, on a terminal, a status line that is overwritten."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_terminal = out.isatty()
        self._last_status = monotonic()
        self._width = 0

    def write_line(self, text: str) -> None:
        """Write a permanent line."""
        self.clear()
        self._out.write(without_tokens(text) + "\n")
        self._out.flush()

    def update_status(self, text: str, *, always: bool = False) -> None:
        """Overwrite the status line; in a file, add a line every ten seconds, or if `always`."""
        if self._is_terminal:
            text = without_tokens(text)[: shutil.get_terminal_size().columns - 1]
            self._out.write("\r" + text.ljust(self._width))
            self._width = len(text)
            self._out.flush()
        elif always or monotonic() - self._last_status >= _SECONDS_PER_STATUS:
            self._last_status = monotonic()
            self.write_line(text)

    def clear(self) -> None:
        """Remove the status line."""
        if self._width:
            self._out.write("\r" + " " * self._width + "\r")
            self._out.flush()
            self._width = 0


@contextmanager
def on_interrupt(action: Callable[[int], object]) -> Iterator[None]:
    """Call an action with SIGINT (Ctrl+C) or SIGTERM, instead of ending this process."""
    names = (signal.SIGINT, signal.SIGTERM)
    previous = {name: signal.signal(name, lambda number, _: action(number)) for name in names}
    try:
        yield
    finally:
        for name, handler in previous.items():
            signal.signal(name, handler)
