"""Atomic writing: what is at a path is always whole, also after a crash or a second writer.

Content is written to a hidden name next to its target, which it then replaces. The name holds the
process that writes it, so that what a killed one has left can be told from what is being written.
"""

import hashlib
import os
import platform
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

TEMPORARY = re.compile(
    r"\.onetrainer-(.+?)(?:-([0-9a-f]{8})-(\d+))?-[0-9a-f]{8}\.(?:part|old)", re.DOTALL
)
"""Temporary names: the target's name, computer and process id, which older versions left out, then
a random token. `.part` is what is being written, `.old` a folder that is being replaced."""
_OLD_SUFFIX = ".old"
_TRIES, _PAUSE = 20, 0.05  # seconds: a reader or another writer is quick
_MAX_NAME = 200  # bytes of the target's name to use, of the 255 that a name may have
_CLOCK_ERROR = 60.0  # seconds
_LEFTOVER_AGE = 86400.0  # seconds; for a writer on another computer, which cannot be asked


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write that replaces `path` when the block ends without an error.

    It is on the disk by then, and has the permissions of the file that it replaces.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent)
    with _replacement(path) as file:
        yield file
    with suppress(OSError):  # not on every network drive; the file is there
        sync_folder(path.parent)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Create a folder to fill that replaces `path` when the block ends without an error.

    If the path is a link, the link is replaced and its target stays.
    """
    remove_leftovers(path.parent)
    temporary = temporary_path(path)
    old = temporary.with_suffix(_OLD_SUFFIX)
    is_replaced = False
    temporary.mkdir(parents=True)
    try:
        yield temporary
        if is_taken(path):
            path.rename(old)
        temporary.rename(path)
        is_replaced = True
    finally:
        remove(temporary)
        if is_replaced:
            remove(old)
        elif is_taken(old) and not is_taken(path):
            old.rename(path)
    with suppress(OSError):
        sync_folder(path.parent)


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, and sync it to disk."""
    with atomic_file(path) as file:
        file.write(content)


def replace_file(path: Path, content: bytes) -> None:
    """Write one of many files of a folder, for a caller that cleans and syncs the folder once."""
    with _replacement(path) as file:
        file.write(content)


def sync_folder(path: Path) -> None:
    """Sync a folder's entries (renames, new files) to disk; does nothing on Windows."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def temporary_path(path: Path) -> Path:
    """Return an unused hidden name next to the path, which `remove_leftovers` knows."""
    path = path.absolute()
    writer = f"{_computer()}-{os.getpid()}"
    name = path.name
    if len(os.fsencode(name)) > _MAX_NAME:
        name = os.fsencode(name)[:_MAX_NAME].decode(errors="ignore")
    return path.with_name(f".onetrainer-{name}-{writer}-{os.urandom(4).hex()}.part")


def remove_leftovers(folder: Path, *, is_locked: bool = False) -> None:
    """Remove temporary files and folders in a folder whose writer was killed.

    A folder that was about to be replaced gets its name back. What a living process writes, and all
    that has another name, stays. Errors are ignored: what cannot be removed is in nobody's way.

    Args:
        folder: Need not exist.
        is_locked: The caller holds the lock that all writers of this folder hold, so none is alive,
            whatever computer or process a name holds.
    """
    with suppress(OSError):
        for leftover in folder.glob(".onetrainer-*"):
            with suppress(OSError):
                found = TEMPORARY.fullmatch(leftover.name)
                if found is None:
                    continue
                if not is_locked and not _is_abandoned(leftover, *found.groups()[1:]):
                    continue
                target = folder / found[1]
                if leftover.suffix != _OLD_SUFFIX or is_taken(target):
                    remove(leftover)
                # Its writer was killed between the two renames of `atomic_folder`.
                elif len(os.fsencode(target.name)) < _MAX_NAME - 3:  # surely not shortened
                    leftover.rename(target)


def is_taken(path: Path) -> bool:
    """Return whether the path exists, also as a broken link."""
    return path.is_symlink() or path.exists()


def remove(path: Path) -> None:
    """Remove a file, a folder with its contents, or a link but not its target. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _replacement(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces the path when the block ends without an error."""
    temporary = temporary_path(path)
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            _copy_permissions(path, temporary)
            os.fsync(file.fileno())
        _replace(temporary, path)
    finally:
        with suppress(OSError):  # the disk may be gone, which the first error says
            temporary.unlink(missing_ok=True)


def _replace(source: Path, target: Path) -> None:
    """Rename a file over another; on Windows after those that have it open have closed it."""
    for _ in range(_TRIES if sys.platform == "win32" else 0):
        with suppress(PermissionError):
            source.replace(target)
            return
        time.sleep(_PAUSE)
    source.replace(target)


def _copy_permissions(source: Path, target: Path) -> None:
    """Give a file the permissions of another, which may not exist; does nothing on Windows."""
    if sys.platform != "win32":
        with suppress(OSError):  # some drives have none
            target.chmod(stat.S_IMODE(source.stat().st_mode))


def _is_abandoned(path: Path, computer: str | None, process: str | None) -> bool:
    changed = path.lstat().st_mtime
    if computer != _computer() or process is None:
        return time.time() - changed > _LEFTOVER_AGE
    import psutil  # only here: it takes a while to load

    try:
        writer = psutil.Process(int(process))
        # The number may since have been given to another process.
        is_other = writer.create_time() > changed + _CLOCK_ERROR
        return is_other or writer.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False


@cache
def _computer() -> str:
    """Return what tells computers, and containers on one, from each other: their process ids."""
    with suppress(OSError):  # Linux only
        return _digest(f"{platform.node()} {Path('/proc/self/ns/pid').stat().st_ino}")
    return _digest(platform.node())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
