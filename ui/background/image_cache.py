"""Images from disk, decoded in a thread and cached."""

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
# Images up to this size are enlarged without smoothing.
PIXEL_ART = 64

Ready = Callable[[], None]
Make = Callable[[], "Image | None"]


class ImageCache:
    """Decoded images by path and size; the last request is decoded first."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._cache: OrderedDict[Hashable, Image | None] = OrderedDict()
        self._waiting: dict[Hashable, list[Ready]] = {}
        # Its thread goes on, but those who waited for an image are gone with their widgets.
        jobs.on_close.append(self._waiting.clear)
        self._queue: LifoQueue[tuple[Hashable, Make]] = LifoQueue()
        self._thread: threading.Thread | None = None

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
        self._queue.put((key, make))
        if self._thread is None:
            self._thread = threading.Thread(target=self._decode, daemon=True)
            self._thread.start()
        return None

    def clear(self) -> None:
        """Forget all images, whose files may have changed."""
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
    """Load an image scaled to fit into a box; None if it cannot be read."""
    # Imported late to keep the start of the window fast.
    from onetrainer.images.decoding import decoding
    from onetrainer.images.image_file import ImageError, open_image

    try:
        with path.open("rb") as file, open_image(file, path) as opened:
            opened.draft("RGB", (width, height))
            with decoding(opened, path):
                return _fitted(opened.convert("RGB"), width, height)
    except (OSError, ImageError):
        return None


def _fitted(image: "Image", width: int, height: int) -> "Image":
    from PIL import Image

    scale = min(width / image.width, height / image.height)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    if size == image.size:
        return image
    if max(image.size) <= PIXEL_ART and scale > 1:
        return image.resize(size, Image.Resampling.NEAREST)
    return image.resize(size, Image.Resampling.LANCZOS)
