"""The mask that is being painted, and what its file holds."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from onetrainer.edits.saving import Change
from ui.editing.mask_painting import MaskPainting, png

Read = Callable[[Path], bytes | None]
"""Returns what a file holds, or will once what waits is saved. May raise OSError."""
Make = Callable[[], Change]
"""Makes a change, which takes a while for a large mask."""


class OpenMask:
    """The mask of one image, with what can be undone; outlives the widgets that show it.

    Attributes:
        path: Its file, which may not exist; None before one is opened.
        painting: None while it is read, and if it cannot be painted.
    """

    def __init__(self) -> None:
        self.path: Path | None = None
        self.painting: MaskPainting | None = None
        self._content: Callable[[], bytes] | None = None  # None is no file

    @property
    def has_file(self) -> bool:
        """Whether there is a file, or will be once what waits is saved."""
        return self._content is not None

    def open(self, path: Path) -> None:
        """Take another file, which is not read yet."""
        self.path, self.painting, self._content = path, None, None

    def take(self, content: bytes | None, painting: MaskPainting) -> None:
        """Take what the file holds."""
        self.painting = painting
        self._content = None if content is None else lambda: content

    def is_known(self, path: Path, read: Read) -> bool:
        """Return whether this is the mask of a file that holds what was read or saved last."""
        if self.painting is None or self.path != path:
            return False
        try:
            return read(path) == (self._content() if self._content else None)
        except OSError:
            return False

    def saving(self) -> Make | None:
        """Take it as saved, and return what makes the change; None if nothing was painted."""
        path, before = self.path, self._content
        if path is None or self.painting is None or not self.painting.is_changed:
            return None
        after = self._content = cache(partial(png, self.painting.taken()))
        return lambda: Change(path, before() if before else None, after())

    def removing(self) -> Make | None:
        """Take its file as removed, and return what makes the change; None if there is none."""
        path, before = self.path, self._content
        if path is None or before is None:
            return None
        self.open(path)
        return lambda: Change(path, before(), None)
