"""The lines of a worker's log: read as it grows, sorted by what they are, folded, and searched."""

import os
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from onetrainer.files.inside import open_inside
from ui.progress.worker_log import Classifier, Kind

_READ_BYTES = 1 << 18
Filter = Literal["all", "folded", "warnings", "errors"]
_SHOWN: dict[Filter, tuple[Kind, ...]] = {
    "all": ("error", "warning", "text", "noise"),
    "folded": ("error", "warning", "text", "noise"),
    "warnings": ("error", "warning"),
    "errors": ("error",),
}


@dataclass(frozen=True)
class LogNews:
    """Lines since the last read.

    restarted: The file was replaced, so what was read before is another log. is_complete: Whether
    the end was reached.
    """

    lines: list[str]
    kinds: list[Kind]
    restarted: bool = False
    is_complete: bool = True


class LogReader:
    """Reads a log from its beginning in small pieces; for one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = self._file = 0
        self._rest = b""
        self._classifier = Classifier()

    def read(self) -> LogNews:
        """Return the next lines; none while there is no file.

        A last line without an end is a line once nothing has followed it since the last read.
        """
        try:
            with open_inside(self._path) as handle:
                status = os.fstat(handle.fileno())
                restarted = self._file not in (0, status.st_ino) or status.st_size < self._offset
                if restarted:
                    self._offset, self._rest, self._classifier = 0, b"", Classifier()
                self._file = status.st_ino
                handle.seek(self._offset)
                chunk = handle.read(_READ_BYTES)
        except OSError:
            return LogNews([], [])
        self._offset += len(chunk)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if not chunk and self._rest:
            lines, self._rest = [self._rest], b""
        texts = [_shown(line) for line in lines]
        kinds = [self._classifier.kind(text) for text in texts]
        return LogNews(texts, kinds, restarted, len(chunk) < _READ_BYTES)


def _shown(line: bytes) -> str:
    """Return a line as a terminal shows it: of a progress bar what it said last."""
    said = [part for part in line.split(b"\r") if part]
    return said[-1].decode(errors="replace").expandtabs() if said else ""


class LogRows:
    """What is shown of some lines: those of a filter, with the noise of libraries folded.

    A row is the index of a line, or ~index of the first of some that are folded.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.kinds: list[Kind] = []
        self.filter: Filter = "folded"
        self.rows: list[int] = []
        self._folded: dict[int, int] = {}  # the number of lines by the first of them
        self._open: set[int] = set()
        self._fold = -1  # that the last line belongs to

    def clear(self) -> None:
        """Forget everything."""
        self.lines, self.kinds = [], []
        self._open.clear()
        self.set_filter(self.filter)

    def extend(self, lines: Sequence[str], kinds: Sequence[Kind]) -> None:
        """Add lines at the end."""
        first = len(self.lines)
        self.lines += lines
        self.kinds += kinds
        self._show_from(first)

    def set_filter(self, name: Filter) -> None:
        """Show other lines."""
        self.filter = name
        self._show_again()

    def kind(self, row: int) -> Kind:
        """Return what a row is."""
        return self.kinds[row] if row >= 0 else "noise"

    def text(self, row: int) -> str:
        """Return the text of a row."""
        if row >= 0:
            return self.lines[row]
        count = self._folded[~row]
        sign = "−" if ~row in self._open else "+"
        what = "line" if count == 1 else "lines"
        return f"{sign} {count:,} {what} of libraries: {self.lines[~row].strip()}"

    def toggle(self, row: int) -> bool:
        """Unfold or fold a row; return whether it is a fold."""
        if row < 0:
            self._open ^= {~row}
            self._show_again()
        return row < 0

    def row_of(self, line: int) -> int:
        """Return the place in `rows` of a line, after unfolding it; of the next if it is hidden."""
        fold = next((at for at, count in self._folded.items() if at <= line < at + count), None)
        if fold is not None and fold not in self._open:
            self.toggle(~fold)
        # A fold stands before its first line.
        place = bisect_left(
            self.rows, 2 * line, key=lambda row: 2 * row if row >= 0 else 2 * ~row - 1
        )
        return min(place, max(0, len(self.rows) - 1))

    def whole(self, rows: Sequence[int]) -> str:
        """Return the text of rows, those of folded lines in full."""
        texts = []
        for row in rows:
            if row >= 0:
                texts.append(self.lines[row])
            elif ~row not in self._open:
                texts += self.lines[~row : ~row + self._folded[~row]]
        return "\n".join(texts)

    def _show_again(self) -> None:
        self.rows, self._folded, self._fold = [], {}, -1
        self._show_from(0)

    def _show_from(self, first: int) -> None:
        shown, is_folding = _SHOWN[self.filter], self.filter == "folded"
        for line in range(first, len(self.lines)):
            kind = self.kinds[line]
            if kind not in shown:
                continue
            if not (is_folding and kind == "noise"):
                self._fold = -1
            elif self._fold < 0:
                self._fold = line
                self._folded[line] = 1
                self.rows.append(~line)
            else:
                self._folded[self._fold] += 1
            if self._fold < 0 or self._fold in self._open:
                self.rows.append(line)


def find_in(lines: Sequence[str], query: str) -> list[int]:
    """Return the lines that contain a text, in upper or lower case."""
    wanted = query.casefold()
    return [at for at, line in enumerate(lines) if wanted in line.casefold()] if wanted else []
