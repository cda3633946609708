"""Terminal output: permanent lines and one status line."""

import shutil
from dataclasses import dataclass, field
from time import monotonic
from typing import TextIO

_SECONDS_PER_LINE = 10.0


@dataclass
class Screen:
    """Writes permanent lines and, on a terminal, a status line that is overwritten."""

    out: TextIO
    is_terminal: bool
    last_line: float = field(default_factory=monotonic)
    width: int = 0

    def write_line(self, text: str) -> None:
        """Write a permanent line."""
        self._clear()
        self.out.write(text + "\n")
        self.out.flush()

    def update_status(self, text: str, *, always: bool = False) -> None:
        """Overwrite the status line; in a file, add a line every ten seconds, or if `always`."""
        if self.is_terminal:
            text = text[: shutil.get_terminal_size().columns - 1]
            self.out.write("\r" + text.ljust(self.width))
            self.width = len(text)
            self.out.flush()
        elif always or monotonic() - self.last_line >= _SECONDS_PER_LINE:
            self.last_line = monotonic()
            self.write_line(text)

    def clear(self) -> None:
        """Remove the status line."""
        self._clear()
        self.out.flush()

    def _clear(self) -> None:
        if self.is_terminal and self.width:
            self.out.write("\r" + " " * self.width + "\r")
            self.width = 0
