"""Files of a folder that a stranger may have made: opened and deleted without leaving it.

Whoever made the folder chose its links and the names in its files. No link is followed below the
folder that a person named, nothing but ordinary files is opened, and what a file of it names is
touched only if that is a plain name inside.
"""

import errno
import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Literal, overload

from onetrainer.errors import UserError
from onetrainer.files.atomic import remove, write_atomic
from onetrainer.files.names import is_plain_name

MAX_DEPTH = 20
"""Folders in folders; a run's are in four, and what walks them calls itself."""
MOST_BYTES = 256 << 20
"""Size of a file that is read at once; a million steps make events of 14 MB."""
Mode = Literal["rb", "ab", "r+b"]
_FLAGS: dict[Mode, int] = {
    "rb": os.O_RDONLY,
    "ab": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    "r+b": os.O_RDWR | os.O_CREAT,
}
# A pipe that is put there a moment later is not waited for either.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_SAFE = _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
_IS_BELOW = os.open in os.supports_dir_fd and sys.platform != "win32"
# Source: Microsoft, "Reparse Point Tags"; files in a cloud have others, and are ordinary ones.
_LINK_TAGS = (0xA000000C, 0xA0000003)  # a symbolic link, a junction


class NotInside(OSError):
    """A path is no ordinary file, or leads out of its folder; treated as one that is not there."""


@overload
def open_inside(
    path: Path, mode: Literal["rb"] = "rb", *, below: Path | None = None
) -> BufferedReader: ...
@overload
def open_inside(
    path: Path, mode: Literal["ab", "r+b"], *, below: Path | None = None
) -> BinaryIO: ...
def open_inside(
    path: Path, mode: Mode = "rb", *, below: Path | None = None
) -> BufferedReader | BinaryIO:
    """Open an ordinary file without following links; "ab" and "r+b" make it if it is missing.

    A file that has another name elsewhere, which "ab" would change too, is first replaced by a
    copy.

    Args:
        path: The file.
        mode: As of `open`.
        below: The folder that a person named; by default the one that the file is in. Folders
            between the two are no links either.

    Raises:
        NotInside: There is a link, a pipe, a device or a folder.
        OSError: As `open` does.
    """
    descriptor = _descriptor(path, _FLAGS[mode], below or path.parent)
    file = os.fdopen(descriptor, mode)
    if mode == "ab" and os.fstat(file.fileno()).st_nlink > 1:
        file.close()
        write_atomic(path, read_inside(path, below=below))
        return open_inside(path, mode, below=below)
    return file


def open_ordinary(path: Path) -> BufferedReader:
    """Open an ordinary file to read, also by a link. Raises OSError; a pipe is not waited for."""
    return os.fdopen(_required(os.open(path, os.O_RDONLY | _SAFE & ~_NO_LINK), path), "rb")


def read_inside(path: Path, *, below: Path | None = None, most: int = MOST_BYTES) -> bytes:
    """Return the content of an ordinary file. Raises OSError, also if it is larger than `most`."""
    with open_inside(path, below=below) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise NotInside(errno.EFBIG, f"larger than {most >> 20} MiB", str(path))
    return content


def require_no_link(path: Path) -> None:
    """Check that a path, at which there may be nothing, is no link. Raises NotInside."""
    with suppress(FileNotFoundError):
        if _is_link(path.lstat()):
            raise NotInside(errno.ELOOP, "it is a link, which is not followed", str(path))


def is_inside(path: Path) -> bool:
    """Return whether there is an ordinary file, which is no link."""
    try:
        status = path.lstat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and not _is_link(status)


def own_files(folder: Path) -> Iterator[Path]:
    """Yield the ordinary files in a folder. Raises OSError, also if it is a link."""
    require_no_link(folder)
    yield from filter(is_inside, folder.iterdir())


def stamp_of(path: Path) -> str:
    """Return what tells a file or folder from another one of its name; "" if it is gone."""
    try:
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode) or _is_link(status):
            return f"{status.st_size}-{status.st_mtime_ns}"
        inner = sorted(each for each in path.rglob("*") if not each.is_dir())
        texts = (f"{each.relative_to(path).as_posix()} {stamp_of(each)}" for each in inner)
        return hashlib.sha256("\n".join(texts).encode(errors="replace")).hexdigest()
    except OSError:
        return ""


def delete_recorded(folder: Path, name: str, stamp: str) -> None:
    """Delete a file or folder that a record names, if it still is what was recorded.

    folder: That it is in. stamp: Its `stamp_of` when it was written; "" deletes nothing.

    Raises OSError.
    """
    path = folder / name
    require_no_link(folder)
    if stamp and is_plain_name(name) and stamp_of(path) == stamp:
        remove(path)


def require_own_files(folder: Path) -> None:
    """Check that all in a folder, which a stranger may have made, are ordinary files and folders.

    Raises UserError that names the first link, pipe or device, or what cannot be listed.
    """
    try:
        found = next(_foreign(folder), None)
    except FileNotFoundError as error:
        raise UserError(f"{folder}: this folder does not exist", "", "Check the path") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            f"{error.filename or folder}: cannot be listed ({reason})",
            "Expected a folder that this program may read",
            "Correct its permissions, or remove it",
        ) from error
    if found is not None:
        raise UserError(
            f"{found[0]}: this is {found[1]}",
            "Expected ordinary files and folders alone: what else is in a folder that may come from"
            " others could lead to any file of this computer",
            "Remove it, or put in its place what it leads to",
        )


def _foreign(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield all below a folder that are no ordinary files and folders, each with what it is."""
    waiting = [(folder, 0)]
    while waiting:
        place, depth = waiting.pop()
        if depth > MAX_DEPTH:
            yield place, f"a folder in more than {MAX_DEPTH} others"
            return
        with os.scandir(place) as entries:
            for entry in entries:
                is_link = entry.is_symlink()
                if sys.platform == "win32":
                    is_link = _is_link(entry.stat(follow_symlinks=False))
                if is_link:
                    yield Path(entry.path), _link_text(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append((Path(entry.path), depth + 1))
                elif not entry.is_file(follow_symlinks=False):
                    yield Path(entry.path), _kind(entry.stat(follow_symlinks=False))


def _descriptor(path: Path, flags: int, below: Path) -> int:
    """Open a file by way of the folders that lead to it, each no link. Raises OSError."""
    *folders, name = path.relative_to(below).parts
    if any(part == ".." for part in (*folders, name)):
        raise NotInside(errno.ELOOP, "it leads out of its folder", str(path))
    if not _IS_BELOW:
        return _checked_descriptor(path, flags, below)
    above = os.open(below, _FOLDER)
    try:
        for folder in folders:
            _require(os.stat(folder, dir_fd=above, follow_symlinks=False), path, stat.S_IFDIR)
            inner = os.open(folder, _FOLDER | _SAFE, dir_fd=above)
            os.close(above)
            above = inner
        # Before it is opened, which wakes some devices; and after, when it cannot be exchanged.
        with suppress(FileNotFoundError):
            _require(os.stat(name, dir_fd=above, follow_symlinks=False), path)
        return _required(os.open(name, flags | _SAFE, 0o644, dir_fd=above), path)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(above)


def _checked_descriptor(path: Path, flags: int, below: Path) -> int:
    """Open a file where no system call opens below a folder, as on Windows. Raises OSError."""
    for folder in path.parents:
        if folder == below:
            break
        _require(folder.lstat(), path, stat.S_IFDIR)
    with suppress(FileNotFoundError):
        _require(path.lstat(), path)
    return _required(os.open(path, flags | _SAFE, 0o644), path)


def _required(descriptor: int, path: Path) -> int:
    try:
        _require(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _require(status: os.stat_result, path: Path, kind: int = stat.S_IFREG) -> None:
    if _is_link(status) or stat.S_IFMT(status.st_mode) != kind:
        raise NotInside(errno.ELOOP, f"it is {_kind(status)}", str(path))


def _is_link(status: os.stat_result) -> bool:
    return stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) in _LINK_TAGS


def _kind(status: os.stat_result) -> str:
    if _is_link(status):
        return "a link, which is not followed"
    if stat.S_ISDIR(status.st_mode):
        return "a folder"
    is_pipe = stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode)
    return "a pipe" if is_pipe else "a device"


def _link_text(path: str) -> str:
    try:
        return f"a link to {os.readlink(path)}"  # noqa: PTH115 # of any kind, also on Windows
    except OSError:
        return "a link"
