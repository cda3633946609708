"""Deleting runs with a way back: they are moved next to where they were, into "deleted runs".

A trash of the system may be on another disk, to which a run would have to be copied, and network
drives have none; a folder on the same disk takes a run of any size in a moment, and gives it back.
"""

from contextlib import suppress
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.run.run_folder import RunFolder, busy, cannot_write

DELETED = "deleted runs"
_MOST_OF_A_NAME = 10_000


def size_of_run(path: Path) -> int:
    """Return the bytes that would become free without a run.

    Files that a fork shares with it are left out. A file that disappears meanwhile counts nothing.
    """
    total = 0
    for file in path.rglob("*"):
        with suppress(OSError):
            status = file.lstat()
            total += status.st_size if file.is_file() and status.st_nlink == 1 else 0
    return total


def delete_run(path: Path) -> Path:
    """Move a run to the deleted ones next to it, and return its new path.

    Raises UserError if it is running, or cannot be moved.
    """
    folder, parent = RunFolder(path), path.absolute().parent / DELETED
    if folder.is_busy():
        raise busy(path)
    try:
        parent.mkdir(exist_ok=True)
        names = (f"{path.name} {number}" for number in range(2, _MOST_OF_A_NAME))
        free = (name for name in (path.name, *names) if not (parent / name).exists())
        return path.absolute().rename(parent / next(free))
    except OSError as error:
        _remove_empty(parent)
        raise cannot_write(parent, error) from error


def restore_run(deleted: Path, path: Path) -> None:
    """Move a deleted run back to where it was. Raises UserError if something else is there."""
    if path.exists():
        raise UserError(
            f"{path}: there is something else by now",
            "Expected the place that the run had",
            f"Move it away; the run is kept as {deleted}",
        )
    try:
        deleted.rename(path)
    except OSError as error:
        raise cannot_write(path, error) from error
    _remove_empty(deleted.parent)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
