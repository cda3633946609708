"""Locks between processes: the system releases one when its process ends, however it ends."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import IO

from onetrainer.files.atomic import write_atomic
from onetrainer.files.inside import open_inside

_PAUSE = 0.03


@contextmanager
def locked(path: Path, *, wait: float) -> Iterator[IO[bytes]]:
    """Hold the lock of a file, which is created if it is missing and stays.

    Args:
        path: The lock file. Its first byte is locked, so that on Windows it cannot be read.
        wait: Seconds to wait for another holder.

    Raises:
        BlockingIOError: Another process, or another thread of this one, holds the lock.
        OSError: The file cannot be created.
    """
    with open_inside(path, "r+b") as handle:
        deadline = monotonic() + wait
        while not try_lock(handle):
            if monotonic() > deadline:
                raise BlockingIOError(f"{path} is locked by another process")
            sleep(_PAUSE)
        try:
            if os.fstat(handle.fileno()).st_nlink > 1:  # the file has another name elsewhere
                write_atomic(path, b"")
                with locked(path, wait=wait) as own:
                    yield own
            else:
                yield handle
        finally:
            unlock(handle)


if sys.platform == "win32":
    import msvcrt

    def try_lock(handle: IO[bytes], *, shared: bool = False) -> bool:
        """Lock an open file unless it is locked; return whether it was."""
        try:
            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(handle: IO[bytes]) -> None:
        """Release the lock of an open file."""
        handle.seek(0)
        msvcrt.locking(handle.fileno(), msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def try_lock(handle: IO[bytes], *, shared: bool = False) -> bool:
        """Lock an open file unless it is locked; return whether it was."""
        mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(handle, mode | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def unlock(handle: IO[bytes]) -> None:
        """Release the lock of an open file."""
        fcntl.flock(handle, fcntl.LOCK_UN)
