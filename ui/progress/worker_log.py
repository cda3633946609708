"""What the lines of a worker's log are, and the end of a log, which several workers may write."""

import os
import re
from pathlib import Path
from typing import Literal

from onetrainer.files.inside import open_inside
from onetrainer.files.lines import split_lines

_TAIL_BYTES = 64 * 1024
_MAX_LINES = 200
_NOISE = re.compile(
    "|".join(
        (
            r"(it/s|s/it)[^\]]*\]",  # progress bar of tqdm: "12/40 [00:03<00:07, 4.1it/s]"
            r"^[IW]\d{4} [\d:.]+ +\d+ .*\]",  # torch's own log, but its errors
            r"^\S+:\d+: \w*Warning: ",  # of Python, with the line that it is about
            r"^(Failed|Unable) to (load|import) .*(\.so|\.dll|torchao)",  # optional kernels
            r"^Extension modules: ",
        )
    )
)
_WARNING = re.compile(r"^\S+:\d+: \w*Warning: ")
# How Python's fault handler begins a thread that was not the one that crashed.
_OTHER_THREAD = re.compile(r"^Thread 0x[0-9a-f]+ ")
_TRACEBACK = "Traceback (most recent call last):"
_ERROR = re.compile(
    r"\b(ERROR|CRITICAL|FATAL)\b|^(Fatal Python error|error)\b|^[EF]\d{4} [\d:.]+ "
    r"|^([a-z_]\w*\.)*[A-Z]\w*(Error|Exception|Interrupt)\b"
)
_IS_WARNING = re.compile(r"\b(WARNING|WARN)\b|^[Ww]arning\b")

Kind = Literal["error", "warning", "text", "noise"]
"""What a line is; noise is the chatter of libraries and progress bars."""


class Classifier:
    """Tells what the lines of a log are, in their order."""

    def __init__(self) -> None:
        self._is_other_thread = self._is_library_warning = self._is_traceback = False
        self._before: Kind = "text"

    def kind(self, line: str) -> Kind:
        """Return what the next line is."""
        self._before = self._kind(line)
        return self._before

    def _kind(self, line: str) -> Kind:
        if not line.strip():
            self._is_other_thread = self._is_library_warning = False
            return self._before
        is_source = self._is_library_warning and line.startswith("  ")
        self._is_library_warning = _WARNING.search(line) is not None
        self._is_other_thread = self._is_other_thread or _OTHER_THREAD.match(line) is not None
        if self._is_other_thread or is_source or _NOISE.search(line):
            return "noise"
        # A traceback ends with the line that names the error, which is not indented.
        if line.startswith(_TRACEBACK):
            self._is_traceback = True
        elif self._is_traceback:
            self._is_traceback = line.startswith(" ")
            return "error"
        if self._is_traceback or _ERROR.search(line):
            return "error"
        return "warning" if _IS_WARNING.search(line) else "text"


def worker_log_tail(path: Path) -> list[str]:
    """Return the last lines that the last worker wrote; [] if there is no log."""
    try:
        with open_inside(path) as handle:
            handle.seek(max(0, handle.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = split_lines(handle.read().decode(errors="replace"))
    except OSError:
        return []
    return relevant_lines(lines)


def relevant_lines(lines: list[str]) -> list[str]:
    """Return the lines of the last worker without the chatter of libraries and empty lines."""
    begins = (
        index
        for index, line in enumerate(lines)
        if line.startswith("worker ") and "begins at" in line
    )
    own = lines[max(begins, default=-1) + 1 :]
    classifier = Classifier()
    kinds = [classifier.kind(line) for line in own]
    shown = (line for line, kind in zip(own, kinds, strict=True) if kind != "noise")
    return [line for line in shown if line.strip()][-_MAX_LINES:]
