"""Errors of writing to the cache folder."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onetrainer.errors import UserError

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Convert OSError to the UserError of a cache folder that cannot be written."""
    try:
        yield
    except OSError as error:
        raise cannot_write(folder, error) from error


def cannot_write(folder: Path, error: OSError | sqlite3.DatabaseError) -> UserError:
    """Return the error of a cache folder that is full or not writable."""
    if isinstance(error, OSError):
        is_full, reason = error.errno in _DISK_FULL, error.strerror or str(error)
    else:
        code = getattr(error, "sqlite_errorcode", 0)
        is_full, reason = code == sqlite3.SQLITE_FULL, f"its index: {error}"
    if is_full:
        return UserError(
            f"{folder}: the disk is full, so encoded images cannot be cached",
            "An image of 512 px takes 0.13 MB",
            'Free space, for example by "onetrainer cache --prune", or choose another "Cache'
            ' folder"',
        )
    return UserError(
        f"{folder}: the cache folder cannot be written ({reason})",
        "A writable folder is needed",
        'Choose another "Cache folder"',
    )
