"""The worker's log, which is bounded: a large one becomes the older one, which is replaced."""

import os
import threading
from contextlib import suppress
from pathlib import Path

from onetrainer.files.inside import open_inside

_MOST_BYTES = 10 << 20
_SECONDS_PER_LOOK = 10.0
_STDOUT, _STDERR = 1, 2


def rotate_log(path: Path) -> bool:
    """Rename a large log to NAME.1, replacing an older one; return whether it was renamed.

    Windows renames no file that is open, so there a log is only renamed between two workers.
    """
    with suppress(OSError):
        if path.stat().st_size > _MOST_BYTES:
            path.replace(path.with_name(f"{path.name}.1"))
            return True
    return False


def keep_log_bounded(path: Path) -> None:
    """Rotate the log that this process writes as its standard output and error, until it ends."""
    threading.Thread(target=_keep_bounded, args=(path,), name="log", daemon=True).start()


def _keep_bounded(path: Path) -> None:
    while not threading.Event().wait(_SECONDS_PER_LOOK):
        if rotate_log(path):
            # Otherwise the renamed file is written on.
            with suppress(OSError), open_inside(path, "ab") as file:
                for stream in (_STDOUT, _STDERR):
                    os.dup2(file.fileno(), stream)
