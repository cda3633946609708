"""Masks in a folder of their own, named like their images, and never in place of an image."""

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from onetrainer.concepts.folder_listing import FolderImage, images_by_name, new_mask_path


class MaskFolder:
    """The masks of a folder. Raises UserError if it cannot be listed; it need not exist.

    recursive: Whether masks of images in subfolders are in subfolders of the same names.
    """

    def __init__(self, path: Path, *, recursive: bool) -> None:
        self._path = path
        self._masks = images_by_name(path, recursive=recursive) if path.is_dir() else {}

    def mask_of(self, image: FolderImage) -> Path | None:
        """Return the mask of an image; None if it has none."""
        return self._masks.get((image.group, image.stem))

    def path_of(self, image: FolderImage) -> Path:
        """Return the same, or the path of a new one."""
        return self.mask_of(image) or new_mask_path(image, self._path)

    @property
    def is_empty(self) -> bool:
        """Whether there is no mask yet, and perhaps no folder."""
        return not self._masks


class RealPaths:
    """Paths of images, found also by links to their folders.

    Names that differ only in case count as one, as they are on Windows and macOS.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._real: Callable[[Path], Path] = cache(Path.resolve)
        self._names: dict[Path, set[str]] = {}  # by folder: a path for each takes twice the memory
        for path in paths:
            self._names.setdefault(self._real(path.parent), set()).add(path.name.casefold())

    def __contains__(self, path: Path) -> bool:
        return path.name.casefold() in self._names.get(self._real(path.parent), ())
