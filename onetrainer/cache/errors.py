"""What is told when the cache folder cannot be written."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onetrainer.errors import UserError

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_REMEDY = 'choose another "Cache folder"'


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Tells in words why something could not be written to the cache folder."""
    try:
        yield
    except OSError as error:
        raise cannot_write(folder, error) from error


def cannot_write(folder: Path, error: OSError | sqlite3.DatabaseError) -> UserError:
    """The error for a cache folder that is full or may not be written."""
    if isinstance(error, OSError):
        is_full, reason = error.errno in _DISK_FULL, error.strerror or str(error)
    else:
        code = getattr(error, "sqlite_errorcode", 0)
        is_full, reason = code == sqlite3.SQLITE_FULL, f"its index: {error}"
    if is_full:
        return UserError(
            f"{folder}: the disk is full, so encoded pictures cannot be kept",
            "A picture of 512 px takes 0.13 MB",
            f'Free space, also by "onetrainer cache --prune", or {_REMEDY}',
        )
    return UserError(
        f"{folder}: the cache folder cannot be written ({reason})",
        "A folder that can be written is needed",
        _REMEDY[0].upper() + _REMEDY[1:],
    )
