"""Read the header of an image without its pixels."""

import time
from dataclasses import dataclass
from pathlib import Path

from onetrainer.images.image_file import (
    DEEP_MODES,
    ImageError,
    open_image,
    orientation,
    upright_size,
)

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
