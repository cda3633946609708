"""End of the worker log of a run, which several workers may have written."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

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


def worker_log_tail(path: Path) -> list[str]:
    """Return the last lines that the last worker wrote; [] if there is no log."""
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, handle.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = handle.read().decode(errors="replace").splitlines()
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
    return [line for line in _of_interest(own) if line.strip()][-_MAX_LINES:]


def _of_interest(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines that are not noise."""
    is_other_thread = is_warning = False
    for line in lines:
        is_source_of_warning = is_warning and line.startswith("  ")
        is_warning = _WARNING.search(line) is not None
        is_other_thread = bool(line.strip()) and (
            is_other_thread or _OTHER_THREAD.match(line) is not None
        )
        if not (is_other_thread or is_source_of_warning or _NOISE.search(line)):
            yield line
