"""Lines in a terminal: those that stay, and one that moves."""

import shutil
from dataclasses import dataclass, field
from time import monotonic
from typing import TextIO

_SECONDS_PER_LINE = 10.0


@dataclass
class Screen:
    """Writes lines that stay and, on a terminal, one line that is written over."""

    out: TextIO
    is_live: bool
    last_line: float = field(default_factory=monotonic)
    width: int = 0

    def stay(self, text: str) -> None:
        """Writes a line for good."""
        self._clear()
        self.out.write(text + "\n")
        self.out.flush()

    def move(self, text: str, *, always: bool = False) -> None:
        """Writes over the moving line; into a file only every ten seconds, unless always."""
        if self.is_live:
            text = text[: shutil.get_terminal_size().columns - 1]
            self.out.write("\r" + text.ljust(self.width))
            self.width = len(text)
            self.out.flush()
        elif always or monotonic() - self.last_line >= _SECONDS_PER_LINE:
            self.last_line = monotonic()
            self.stay(text)

    def clear(self) -> None:
        """Takes the moving line away."""
        self._clear()
        self.out.flush()

    def _clear(self) -> None:
        if self.is_live and self.width:
            self.out.write("\r" + " " * self.width + "\r")
            self.width = 0
