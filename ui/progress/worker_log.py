"""End of the worker log of a run, which several workers may have written."""

import os
import re
from pathlib import Path

_TAIL_BYTES = 64 * 1024
_MAX_LINES = 20
# Line of a tqdm progress bar: "12/40 [00:03<00:07, 4.1it/s]".
_BAR = re.compile(r"(it/s|s/it)[^\]]*\]")


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
    """Return the lines of the last worker without progress bars and empty lines."""
    begins = (
        index
        for index, line in enumerate(lines)
        if line.startswith("worker ") and "begins at" in line
    )
    own = lines[max(begins, default=-1) + 1 :]
    return [line for line in own if line.strip() and not _BAR.search(line)][-_MAX_LINES:]
