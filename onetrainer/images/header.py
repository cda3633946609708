"""What a picture's header tells, read without its pixels."""

import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from onetrainer.images.image_file import (
    DEEP_MODES,
    ImageError,
    open_image,
    orientation,
    upright_size,
)
from onetrainer.images.quick_header import quick_header

MOST_RECENT = 300_000
"""How many headers a process remembers; some 100 MB."""

SETTLED_NS = 3_000_000_000
"""A file changed less than this ago is not remembered: file systems tell times to 2 s at worst
(FAT), so it might change once more and look the same."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a picture's header tells. width, height: upright. has_alpha: parts may show through."""

    width: int
    height: int
    has_alpha: bool


def read_header(path: Path) -> Header:
    """Raises PictureError if the file is no picture that can be read."""
    try:
        quick = quick_header(path)
    except OSError as error:
        raise ImageError(path, f"cannot be read ({error.strerror})") from error
    return pillow_header(path) if quick is None else Header(*quick)


def pillow_header(path: Path) -> Header:
    """As Pillow sees it, of whatever kind and however odd. Raises PictureError."""
    try:
        with path.open("rb") as file, open_image(file, path) as image:
            width, height = upright_size(image, orientation(image, file))
            # Of 16 bits, no format has an alpha channel that Pillow would give.
            has_alpha = image.has_transparency_data and image.mode not in DEEP_MODES
            return Header(width, height, has_alpha)
    except OSError as error:
        raise ImageError(path, f"cannot be read ({error.strerror})") from error


class RecentHeaders:
    """The headers that this process has read already, of files that have not changed since."""

    def __init__(self, most: int = MOST_RECENT) -> None:
        self._most = most
        self._headers: dict[Path, tuple[tuple[int, ...], Header]] = {}

    def known(self, path: Path) -> Header | None:
        """The header of a file as it is now; None if it has to be read."""
        stamp, header = self._headers.get(path, ((), None))
        return header if header is not None and stamp == file_stamp(path) else None

    def learn(self, path: Path, header: Header) -> None:
        """Keeps a header that has just been read."""
        stamp = file_stamp(path)
        if stamp:
            self._headers.pop(path, None)
            self._headers[path] = stamp, header
            if len(self._headers) > self._most:
                self._headers.pop(next(iter(self._headers)), None)


def file_stamp(path: Path) -> tuple[int, ...]:
    """What changes with a file; () if there is none, or it has just changed and may do so again.

    The time of status change, too: tools that restore the other one cannot set it (on Windows it is
    the time of creation, and says nothing more).
    """
    try:
        found = path.stat()
    except OSError:
        return ()
    newest = max(found.st_mtime_ns, found.st_ctime_ns)
    if time.time_ns() - newest < SETTLED_NS:
        return ()
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


@cache
def recent_headers() -> RecentHeaders:
    """Those of this process, for what looks at the same folders again and again: the window."""
    return RecentHeaders()
