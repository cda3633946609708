"""Read the header of an image without its pixels."""

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

MAX_RECENT = 300_000
"""Number of headers that a process caches; some 100 MB."""

SETTLED_NS = 3_000_000_000
"""Files changed less than this ago are not cached: file systems round times to 2 s at worst (FAT),
so another change might go unnoticed.
"""


@dataclass(frozen=True, slots=True)
class Header:
    """The header of an image: upright size in pixels, and whether it may be transparent."""

    width: int
    height: int
    has_alpha: bool


def read_header(path: Path) -> Header:
    """Read an image's header. Raises ImageError if the file is not a readable image."""
    try:
        with path.open("rb") as file, open_image(file, path) as image:
            width, height = upright_size(image, orientation(image, file))
            # Pillow gives no alpha channel for grayscale of 16 bits.
            has_alpha = image.has_transparency_data and image.mode not in DEEP_MODES
            return Header(width, height, has_alpha)
    except OSError as error:
        raise ImageError(path, f"cannot be read ({error.strerror})") from error


class RecentHeaders:
    """Headers that this process has read, of files that have not changed since."""

    def __init__(self, limit: int = MAX_RECENT) -> None:
        self._most = limit
        self._headers: dict[Path, tuple[tuple[int, ...], Header]] = {}

    def cached_header(self, path: Path) -> Header | None:
        """Return the cached header of a file; None if it must be read."""
        stamp, header = self._headers.get(path, ((), None))
        return header if header is not None and stamp == file_stamp(path) else None

    def store_header(self, path: Path, header: Header) -> None:
        """Store a header that was just read."""
        stamp = file_stamp(path)
        if stamp:
            self._headers.pop(path, None)
            self._headers[path] = stamp, header
            if len(self._headers) > self._most:
                self._headers.pop(next(iter(self._headers)), None)


def file_stamp(path: Path) -> tuple[int, ...]:
    """Return values that change with a file; () if there is none, or it has just changed.

    They include the time of status change, which tools that restore the other times cannot set. (On
    Windows it is the time of creation and adds nothing.)
    """
    try:
        status = path.stat()
    except OSError:
        return ()
    newest = max(status.st_mtime_ns, status.st_ctime_ns)
    if time.time_ns() - newest < SETTLED_NS:
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


@cache
def recent_headers() -> RecentHeaders:
    """Return the header cache of this process, for the window, which rereads folders often."""
    return RecentHeaders()
