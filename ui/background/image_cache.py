"""Pictures from disk, decoded in a thread and kept while there is room."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from queue import LifoQueue
from typing import TYPE_CHECKING

from ui.background.threads import Jobs

if TYPE_CHECKING:
    from PIL.Image import Image

_MAX_CACHED = 240
# Pictures this small are drawn in pixels that should stay pixels.
PIXEL_ART = 64

Ready = Callable[[], None]
Make = Callable[[], "Image | None"]


class ImageCache:
    """Decoded pictures by path and size. What is asked for last is decoded first."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._cache: OrderedDict[Hashable, Image | None] = OrderedDict()
        self._waiting: dict[Hashable, list[Ready]] = {}
        self._queue: LifoQueue[tuple[Hashable, Make]] = LifoQueue()
        self._thread: threading.Thread | None = None

    def get(self, path: Path, width: int, height: int, ready: Ready) -> "Image | None":
        """The picture scaled to fit, or None and a call of `ready` when it has been decoded.

        A file that cannot be read stays None; it is not asked for again.
        """
        return self.get_or_make(
            (path, width, height), partial(load_fitting, path, width, height), ready
        )

    def get_or_make(self, key: Hashable, make: Make, ready: Ready) -> "Image | None":
        """A picture that a function makes, or None and a call of `ready` when it is there.

        key: tells it from all others. What the function gives as None stays so.
        """
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        if key in self._waiting:
            if ready not in self._waiting[key]:
                self._waiting[key].append(ready)
            return None
        self._waiting[key] = [ready]
        self._queue.put((key, make))
        if self._thread is None:
            self._thread = threading.Thread(target=self._decode, daemon=True)
            self._thread.start()
        return None

    def clear(self) -> None:
        """Forgets all pictures, whose files may have changed."""
        self._cache.clear()

    def _decode(self) -> None:
        while True:
            key, make = self._queue.get()
            image = make()
            self._jobs.post(partial(self._store, key, image))

    def _store(self, key: Hashable, image: "Image | None") -> None:
        self._cache[key] = image
        while len(self._cache) > _MAX_CACHED:
            self._cache.popitem(last=False)
        for ready in self._waiting.pop(key, []):
            ready()


def load_fitting(path: Path, width: int, height: int) -> "Image | None":
    """A picture scaled to fit into a box; None if it cannot be read."""
    # Pillow is loaded with the first picture, so that the window is on the screen before.
    from PIL import Image

    try:
        with Image.open(path) as file:
            file.draft("RGB", (width, height))
            image = file.convert("RGB")
    except (OSError, ValueError, Image.DecompressionBombError):
        return None
    scale = min(width / image.width, height / image.height)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    if size == image.size:
        return image
    if max(image.size) <= PIXEL_ART and scale > 1:
        return image.resize(size, Image.Resampling.NEAREST)
    return image.resize(size, Image.Resampling.LANCZOS)
