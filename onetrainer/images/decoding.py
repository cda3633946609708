"""Memory for decoding images: huge ones one at a time, and none that takes more than is free.

Smaller ones are never refused, and wait while those that are being decoded leave too little.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition, Lock
from typing import TYPE_CHECKING

from onetrainer.files.lines import split_lines
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
_LONGEST_WAIT = 30.0  # seconds, for memory: what waits for each other goes on


class _InFlight:
    """The bytes of all images that are being decoded."""

    def __init__(self) -> None:
        self._bytes = 0
        self._changed = Condition()

    @contextmanager
    def add(self, needed: int, *, waits: bool) -> Iterator[None]:
        """Count an image while the block runs. waits: Until there is memory for it, or no other."""
        with self._changed:
            if waits:
                self._changed.wait_for(lambda: self._fits(needed), _LONGEST_WAIT)
            self._bytes += needed
        try:
            yield
        finally:
            with self._changed:
                self._bytes -= needed
                self._changed.notify_all()

    def _fits(self, needed: int) -> bool:
        # What the others have taken already is counted twice: half of the memory stays free.
        return not self._bytes or self._bytes + needed <= free_memory() - _RESERVE


_IN_FLIGHT = _InFlight()


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
            with _IN_FLIGHT.add(needed, waits=True):
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
            with _IN_FLIGHT.add(needed, waits=False):
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
        statistics = (line.split() for line in split_lines((_GROUP / "memory.stat").read_text()))
        cached = sum(int(value) for name, value in statistics if name == "file")
        used = int((_GROUP / "memory.current").read_text()) - cached
    except (OSError, ValueError):
        return free
    return min(free, int(limit) - used) if limit.isdecimal() else free


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
