"""Caption lists: files with the captions of many images, as .csv, .jsonl or .txt."""

import os
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from onetrainer.captions.caption_list_file import CaptionEntry, read_list
from onetrainer.concepts.folder_listing import IMAGE_SUFFIXES, UNREAD_SUFFIXES
from onetrainer.errors import UserError

_SUFFIXES = IMAGE_SUFFIXES | UNREAD_SUFFIXES

Components: TypeAlias = tuple[str, ...]
Key: TypeAlias = Callable[[Components], Components]


@dataclass(frozen=True)
class ListMatch:
    """The entry of each image, None if the list does not name it, and entries without an image."""

    entries: tuple[CaptionEntry | None, ...]
    unused: tuple[CaptionEntry, ...]


@dataclass(frozen=True)
class CaptionList:
    """The entries of a caption list.

    is_in_order: Whether it names no files, so that lines go with images in order.
    """

    path: Path
    entries: tuple[CaptionEntry, ...]
    is_in_order: bool = False

    def match(self, root: Path, names: Sequence[str]) -> ListMatch:
        """Match the entries with images.

        An entry names an image by its path or the end of one: "cat.png" and "pets/cat.png" both are
        /data/pets/cat.png. If no image matches, its extension may differ or be missing. Letter case
        only decides between two images of otherwise the same name. Several entries for one image
        are alternative captions.

        names: Paths of the images below root, with "/", in order. Raises UserError if an entry
        matches two images, or a .txt file has another number of lines.
        """
        if self.is_in_order:
            return self._match_in_order(names)
        images = _Images(root, names)
        matches: dict[int, CaptionEntry] = {}
        left = list(self.entries)
        for key in (_full_key, _stem_key):
            tried, left = left, []
            # An image that is named in full is not meant by a name with another extension.
            matched = frozenset(matches)
            for entry in tried:
                fits = [at for at in images.ending(entry.file, key) if at not in matched]
                if len(fits) > 1:
                    raise UserError(
                        f'{self.path}, line {entry.line}: "{entry.file}" may be'
                        f' "{names[fits[0]]}" or "{names[fits[1]]}"',
                        "Expected a name that matches one image only",
                        "Write more of its path, and its extension",
                    )
                if fits:
                    matches[fits[0]] = self._merge_entries(matches.get(fits[0]), entry)
                else:
                    left.append(entry)
        return ListMatch(tuple(matches.get(at) for at in range(len(names))), tuple(left))

    def _merge_entries(self, previous: CaptionEntry | None, entry: CaptionEntry) -> CaptionEntry:
        if previous is None:
            return entry
        if previous.focus and entry.focus and previous.focus != entry.focus:
            raise UserError(
                f'{self.path}: lines {previous.line} and {entry.line} give "{entry.file}" two'
                " different focus points",
                "Expected one focus point for each image",
                "Remove one of them",
            )
        captions = tuple(filter(None, (*previous.captions, *entry.captions)))
        return replace(previous, captions=captions or ("",), focus=previous.focus or entry.focus)

    def _match_in_order(self, names: Sequence[str]) -> ListMatch:
        entries = list(self.entries)
        while len(entries) > len(names) and entries[-1].captions == ("",):
            entries.pop()
        if len(entries) != len(names):
            raise UserError(
                f"{self.path} has {len(entries)} lines for {len(names)} images",
                "A .txt file needs a line for each image, in the order of their names; an empty"
                " line is an image without a caption",
                "Correct it, or use a .csv or .jsonl file, which names the images",
            )
        return ListMatch(tuple(entries), ())


class _Images:
    """Image paths, indexed by their endings."""

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        base = _components(Path(os.path.abspath(root)).as_posix())  # noqa: PTH100 - links stay as named
        self._depth = len(base)
        self._paths = [(*base, *_components(name)) for name in names]
        self._places: dict[tuple[Key, int], dict[Components, list[int]]] = {}

    def ending(self, file: str, key: Key) -> list[int]:
        """Return the indices of the images that a name matches best, comparing path keys."""
        components = _components(file)
        size = len(components)
        if (key, size) not in self._places:
            places: defaultdict[Components, list[int]] = defaultdict(list)
            for at, path in enumerate(self._paths):
                places[key(path[-size:])].append(at)
            self._places[key, size] = places
        fits = self._places[key, size].get(key(components), [])
        # Of "cat.png" and "pets/cat.png", "cat.png" means the one in the folder itself.
        fits = [at for at in fits if len(self._paths[at]) - self._depth == size] or fits
        return [at for at in fits if self._paths[at][-size:] == components] or fits


def read_caption_list(path: Path) -> CaptionList:
    """Read a caption list. Raises UserError with the line if it is invalid."""
    entries = tuple(read_list(path))
    return CaptionList(path, entries, is_in_order=path.suffix.lower() == ".txt")


def _components(path: str) -> Components:
    """Return the components of a path from any operating system."""
    clean = unicodedata.normalize("NFC", path.strip()).replace("\\", "/")
    return tuple(part for part in clean.split("/") if part not in ("", ".", ".."))


def _full_key(parts: Components) -> Components:
    return tuple(part.casefold() for part in parts)


def _stem_key(parts: Components) -> Components:
    """Return the key of a path without its extension, if that is one of images."""
    *above, last = _full_key(parts)
    suffix = Path(last).suffix
    return (*above, last.removesuffix(suffix) if suffix in _SUFFIXES else last)
