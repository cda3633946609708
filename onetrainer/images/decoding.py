"""Memory for decoding an image: huge ones one at a time, and none that takes more than is free."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from onetrainer.images.image_file import DEEP_MODES, ImageError

if TYPE_CHECKING:
    from PIL.Image import Image

HUGE = 512 << 20
"""Bytes from which an image is decoded alone; those of a camera with 50 megapixels take less."""

_RESERVE = 256 << 20  # bytes that stay free for everything else
# Bytes a pixel at the peak, with conversion and analysis. Measured with Pillow 12 for every mode
# and format, at 36 megapixels; Pillow keeps RGB in four bytes.
_PLAIN, _CONVERTED, _TRANSPARENT, _OWN_BUFFERS = 8, 12, 16, 9
_GROUP = Path("/sys/fs/cgroup")  # version 2, of a container
_ONE_AT_A_TIME = Lock()


@contextmanager
def decoding(image: "Image", path: Path) -> Iterator[None]:
    """Guard the block that decodes and converts an open image.

    Args:
        image: With its header read, after `draft`.
        path: Names the image in errors.

    Raises:
        ImageError: It takes more memory than is free, or turned out to.
    """
    try:
        if (needed := decoding_bytes(image)) < HUGE:
            yield
            return
        with _ONE_AT_A_TIME:
            if needed > (free := max(0, free_memory() - _RESERVE)):
                width, height = image.size
                raise ImageError(
                    path,
                    f"its {width} × {height} pixels need {_gb(needed)} of memory to decode, and"
                    f" {_gb(free)} is free; save it smaller, or close other programs",
                ) from MemoryError()
            yield
    except MemoryError as error:
        raise ImageError(path, "there is not enough memory to read it") from error


def decoding_bytes(image: "Image") -> int:
    """Return the memory that decoding an image takes at its peak, at most."""
    is_converted = image.mode in DEEP_MODES or image.mode in ("CMYK", "YCbCr")
    each = _CONVERTED if is_converted else _PLAIN
    if image.has_transparency_data:
        each = _TRANSPARENT
    if image.format in ("WEBP", "AVIF"):
        each += _OWN_BUFFERS
    return image.width * image.height * each


def free_memory() -> int:
    """Return the bytes that this process may still take, also in a container."""
    import psutil  # only here: it takes a while to load

    free = int(psutil.virtual_memory().available)
    try:
        limit = (_GROUP / "memory.max").read_text().strip()
        statistics = (line.split() for line in (_GROUP / "memory.stat").read_text().splitlines())
        cached = sum(int(value) for name, value in statistics if name == "file")
        used = int((_GROUP / "memory.current").read_text()) - cached
    except (OSError, ValueError):
        return free
    return min(free, int(limit) - used) if limit.isdecimal() else free


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
