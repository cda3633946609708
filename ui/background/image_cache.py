"""Images from disk, decoded in a thread and cached."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from queue import LifoQueue
from typing import TYPE_CHECKING, NamedTuple

from ui.background.threads import Jobs

if TYPE_CHECKING:
    from PIL.Image import Image

_MAX_BYTES = 12_000_000
"""Of all images: 320 thumbnails of 96 pixels. What is on the screen is kept by its drawing too."""
_LEAST = 4
"""Images that are kept however large: those that are compared are asked for again and again."""
_MAX_WAITING = 1000
"""Requests that wait: of those that were scrolled past the oldest are dropped."""
_THREADS = 2
_MOST_SIDE = 2560
# Images up to this size are enlarged without smoothing.
PIXEL_ART = 64

Ready = Callable[[], None]
Make = Callable[[], "Image | None"]


class _Asked(NamedTuple):
    key: Hashable
    make: Make
    age: int


class ImageCache:
    """Decoded images by path and size; the last request is decoded first."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._cache: OrderedDict[Hashable, Image | None] = OrderedDict()
        self._bytes = 0
        self._waiting: OrderedDict[Hashable, list[Ready]] = OrderedDict()
        self._age = 0  # how often the images were forgotten
        self._queue: LifoQueue[_Asked | None] = LifoQueue()
        self._threads: list[threading.Thread] = []
        jobs.on_close.append(self._close)

    def get(self, path: Path, width: int, height: int, ready: Ready) -> "Image | None":
        """Return the image scaled to fit, or None and call `ready` when it is decoded.

        A file that cannot be read stays None and is not read again.
        """
        return self.get_or_make(
            (path, width, height), partial(load_fitting, path, width, height), ready
        )

    def get_or_make(self, key: Hashable, make: Make, ready: Ready) -> "Image | None":
        """Return a computed image, or None and call `ready` when it is available.

        Args:
            key: Identifies the image.
            make: Computes it in a thread; None is cached as well.
            ready: Called in the Tk thread.
        """
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        if key in self._waiting:
            if ready not in self._waiting[key]:
                self._waiting[key].append(ready)
            return None
        self._waiting[key] = [ready]
        if len(self._waiting) > _MAX_WAITING:
            self._waiting.popitem(last=False)
        self._queue.put(_Asked(key, make, self._age))
        if len(self._threads) < _THREADS:
            self._threads.append(threading.Thread(target=self._decode, daemon=True))
            self._threads[-1].start()
        return None

    def clear(self) -> None:
        """Forget all images, whose files may have changed; also those that are being decoded."""
        self._cache.clear()
        self._bytes = 0
        self._age += 1

    def _close(self) -> None:
        """End the threads; those who wait for an image are gone with their widgets."""
        self._waiting.clear()
        self._age += 1
        for _ in self._threads:
            self._queue.put(None)
        self._threads.clear()  # whoever asks all the same gets others

    def _decode(self) -> None:
        while (asked := self._queue.get()) is not None:
            if asked.key in self._waiting:  # nobody waits for what was dropped
                self._jobs.post(partial(self._store, asked, asked.make()))

    def _store(self, asked: _Asked, image: "Image | None") -> None:
        key = asked.key
        if asked.age != self._age:  # its file was read before it changed
            if key in self._waiting:
                self._queue.put(asked._replace(age=self._age))
            return
        self._bytes += _size(image) - _size(self._cache.get(key))
        self._cache[key] = image
        while self._bytes > _MAX_BYTES and len(self._cache) > _LEAST:
            self._bytes -= _size(self._cache.popitem(last=False)[1])
        for ready in self._waiting.pop(key, []):
            ready()


def load_whole(path: Path) -> "Image | None":
    """Load an image in its own size, but no larger than a screen can show; None if unreadable."""
    return load_fitting(path, _MOST_SIDE, _MOST_SIDE, enlarges=False)


def load_fitting(path: Path, width: int, height: int, *, enlarges: bool = True) -> "Image | None":
    """Load an image scaled to fit into a box; None if it cannot be read."""
    # Imported late to keep the start of the window fast.
    from onetrainer.images.decoding import decoding
    from onetrainer.images.image_file import (
        DEEP_MODES,
        TRANSPOSED_ORIENTATIONS,
        ImageError,
        apply_orientation,
        opaque,
        open_image,
        orientation,
    )

    try:
        with path.open("rb") as file, open_image(file, path) as opened:
            turned = orientation(opened, file)
            opened.draft("RGB", (max(width, height),) * 2)
            with decoding(opened, path):
                plain = opened.convert("RGB") if opened.mode in DEEP_MODES else opaque(opened)
                is_turned = turned in TRANSPOSED_ORIENTATIONS
                box = (height, width) if is_turned else (width, height)
                if enlarges or plain.width > box[0] or plain.height > box[1]:
                    plain = _fitted(plain, *box)
                return apply_orientation(plain, turned)
    except (OSError, ImageError):
        return None


def _size(image: "Image | None") -> int:
    """Return the bytes of an image; Pillow keeps RGB in four each."""
    return 0 if image is None else image.width * image.height * 4


def _fitted(image: "Image", width: int, height: int) -> "Image":
    from PIL import Image

    scale = min(width / image.width, height / image.height)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    if size == image.size:
        return image
    if max(image.size) <= PIXEL_ART and scale > 1:
        return image.resize(size, Image.Resampling.NEAREST)
    return image.resize(size, Image.Resampling.LANCZOS)
