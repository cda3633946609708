"""List the image files of a folder in an order that all machines agree on."""

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from onetrainer.errors import UserError
from onetrainer.images.file_kind import SAVE, kind_of_file

IMAGE_SUFFIXES = frozenset(
    [".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif"]
)
"""Extensions of supported images."""

UNREAD_SUFFIXES = frozenset(
    [".jxl", ".heic", ".heif", ".psd", ".tga", ".jp2", ".svg", ".dng", ".cr2", ".nef", ".arw"]
)
"""Extensions of unsupported images: listed with a reason, so that none is missed."""

MASK_SUFFIX = "-masklabel.png"
"""Ending of a mask's name in place of its image's extension, as in people's existing folders."""

CONDITIONING_SUFFIX = "-condlabel.png"
"""The same for conditioning images, which some models see."""

MAX_IMAGES, MAX_OTHERS, _COMPANIONS = 1_000_000, 100_000, 3
"""Most images of a folder, and most other files and folders in it, beside those of images: caption,
mask and conditioning image. A whole disk, or a home folder, ends here within seconds.
"""

NAMELESS = "its name, or that of its folder, has an unknown encoding; rename it"
"""Reason for names that are not text on this system: seeds, messages and the cache need names."""

CAPTION_SUFFIXES = (".caption", ".txt")
"""Extensions of caption files; if an image has both, the last is read."""

_SORTED_AT_ONCE = 2000
_THUMBNAIL_SUFFIX = ".thumb.jpg"
_DATA_SUFFIXES = (
    *(".npz", ".npy", ".pt", ".safetensors", ".json", ".jsonl", ".csv", ".db", ".sqlite", ".ini"),
    *(".py", ".md", ".log", ".yaml", ".yml", ".toml", ".html", ".xml", ".xmp"),
)
"""Extensions of files that lie beside images and are none."""
_NO_IMAGE = (
    *(*CAPTION_SUFFIXES, MASK_SUFFIX, CONDITIONING_SUFFIX, _THUMBNAIL_SUFFIX),
    *_DATA_SUFFIXES,
)
_DIGITS = re.compile(r"(\d+)")
_SURROGATE = re.compile("[\ud800-\udfff]")


class FolderImage(NamedTuple):
    """An image with the files of its name, or a file that cannot be used and the reason.

    name: Path below the listed folder, with "/" and NFC. reason: Empty if it may be opened.
    """

    path: Path
    name: str
    caption: Path | None = None
    mask: Path | None = None
    conditioning: Path | None = None
    reason: str = ""

    @property
    def group(self) -> str:
        """The subfolder of the listed folder that it lies in; "" for that itself."""
        return self.name.rpartition("/")[0]

    @property
    def stem(self) -> str:
        """The file name without extension."""
        return stem(self.name.rpartition("/")[2])


_Found = tuple[tuple[tuple[str | int, ...], ...], str, FolderImage]
"""An image with its key in natural order, and its name."""


@dataclass(frozen=True)
class FolderListing:
    """A folder's images in order, captions, masks and conditioning images that belong to none.

    inner: Subfolders that were not read. others: Files that are none of these by their extension;
    some may be images all the same.
    """

    images: tuple[FolderImage, ...]
    captions: tuple[Path, ...] = ()
    companion_images: tuple[Path, ...] = ()
    inner: tuple[Path, ...] = ()
    others: tuple[Path, ...] = ()


class _Folder(NamedTuple):
    """A folder to read. is_linked: it, or a folder above it, is a link."""

    path: str
    name: str = ""
    key: "tuple[tuple[str | int, ...], ...]" = ()
    is_linked: bool = False


def list_folder(root: Path, *, recursive: bool) -> FolderListing:
    """Return all images of a folder in the order of their paths, and the files without an image.

    The order is natural (2 before 10), case-insensitive, and the same on every file system. A link
    to a folder that is listed anyway, or that the listed one lies in, is left out.

    Raises UserError if there are more other files, or more images, than any image folder has.
    """
    found: list[_Found] = []
    captions: list[Path] = []
    companion_images: list[Path] = []
    inner: list[Path] = []
    others: list[Path] = []
    for folder in (folders := _Folders(root)):
        try:
            with os.scandir(folder.path) as entries:
                files = [each for each in folders.counted(entries) if each.name[0] != "."]
        except OSError as error:
            reason = f"this folder cannot be read ({error.strerror})"
            name = folder.name.rstrip("/")
            found.append((folder.key, name, FolderImage(Path(folder.path), name, reason=reason)))
            continue
        # Sorted, so that of x.TXT and x.txt the latter is used.
        names = sorted(entry.name for entry in files)
        companions = [
            {
                normalize_name(name[: -len(suffix)]): Path(folder.path, name)
                for suffix in suffixes
                for name in names
                if name.lower().endswith(suffix)
            }
            for suffixes in (CAPTION_SUFFIXES, (MASK_SUFFIX,), (CONDITIONING_SUFFIX,))
        ]
        used: set[str] = set()
        for entry in files:
            name = normalize_name(entry.name)
            if _is_folder(entry):
                if not recursive:
                    inner.append(Path(entry.path))
                else:
                    folders.add(folder, entry, name)
            elif is_image(entry.name):
                used.add(stem(name))
                caption, mask, conditioning = (by_stem.get(stem(name)) for by_stem in companions)
                path, key = Path(entry.path), (*folder.key, natural_key(name))
                name = folder.name + name
                reason = _unusable_reason(entry, name)
                image = FolderImage(path, name, caption, mask, conditioning, reason)
                found.append((key, name, image))
            elif not entry.name.lower().endswith(_NO_IMAGE):
                others.append(Path(entry.path))
        for unused, by_stem in zip(
            (captions, companion_images, companion_images), companions, strict=True
        ):
            unused += [path for name, path in by_stem.items() if name not in used]
    images = tuple(image for _, _, image in _ordered(found))
    rest = tuple(sorted(inner)), tuple(sorted(others))
    return FolderListing(images, tuple(captions), tuple(companion_images), *rest)


def _ordered(found: Sequence[_Found]) -> Iterator[_Found]:
    """Yield images in order, sorted in parts: a window stands still while all are sorted at once.

    Python changes threads between the parts, and between the images that are merged.
    """
    parts = range(0, len(found), _SORTED_AT_ONCE)
    order = itemgetter(0, 1)
    return merge(*(sorted(found[at : at + _SORTED_AT_ONCE], key=order) for at in parts), key=order)


def images_by_name(folder: Path, *, recursive: bool) -> dict[tuple[str, str], Path]:
    """Return the images of a folder by their subfolder and their name without its extension.

    Raises UserError if it cannot be listed.
    """
    found = list_folder(folder, recursive=recursive).images
    return {(image.group, image.stem): image.path for image in found}


class _Folders:
    """The folders to read: those that no link leads to first, so that links never add to them."""

    def __init__(self, root: Path) -> None:
        real = Path(os.path.realpath(root))
        self._root = root
        self._images = self._others = 0
        self._pending = [_Folder(str(root))]
        self._links: list[_Folder] = []
        self._seen = {_identity(str(above)) for above in (real, *real.parents)}

    def __iter__(self) -> Iterator[_Folder]:
        while self._pending or self._links:
            if self._others > MAX_OTHERS + _COMPANIONS * self._images:
                raise _too_many_error(self._root, f"{MAX_OTHERS:,} files in it are no images")
            if self._pending:
                yield self._pending.pop()
            else:
                self._links.sort(key=lambda link: (link.key, link.path), reverse=True)
                self._visit(self._links.pop())

    def counted(self, entries: Iterable["os.DirEntry[str]"]) -> Iterator["os.DirEntry[str]"]:
        """Yield the entries of a folder. Raises UserError if there are too many in all."""
        for entry in entries:
            if is_image(entry.name):
                self._images += 1
            else:
                self._others += 1
            if self._images > MAX_IMAGES:
                raise _too_many_error(self._root, f"{MAX_IMAGES:,} images are in it")
            if self._others > MAX_OTHERS + _COMPANIONS * MAX_IMAGES:
                raise _too_many_error(self._root, f"{MAX_OTHERS:,} files in it are no images")
            yield entry

    def add(self, parent: _Folder, entry: "os.DirEntry[str]", name: str) -> None:
        """Add a folder of another one."""
        is_link = entry.is_symlink()
        key = (*parent.key, natural_key(name))
        folder = _Folder(entry.path, f"{parent.name}{name}/", key, is_link or parent.is_linked)
        if is_link:
            self._links.append(folder)
        else:
            self._visit(folder)

    def _visit(self, folder: _Folder) -> None:
        identity = _identity(folder.path)
        # Some file systems give two folders one number: what is in the root itself is never lost.
        if not folder.is_linked or identity not in self._seen:
            self._pending.append(folder)
        self._seen.add(identity)


def count_images(folder: Path) -> int:
    """Return the number of images directly in a folder; 0 if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sum(is_image(entry.name) for entry in entries if entry.name[0] != ".")
    except OSError:
        return 0


def natural_key(name: str) -> tuple[str | int, ...]:
    """Return a key for natural order: 2 before 10, a next to A, ü the same from every system."""
    parts: list[str | int] = [*_DIGITS.split(normalize_name(name).casefold())]
    parts[1::2] = map(int, parts[1::2])
    return tuple(parts)


def normalize_name(name: str) -> str:
    """Return a name as NFC: systems spell "ü" differently."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def new_mask_path(image: FolderImage, folder: Path | None) -> Path:
    """Return the path of the mask of an image that has none.

    folder: That of the masks; None if they are next to their images.
    """
    if folder is not None:
        return folder / image.group / f"{image.stem}.png"
    return image.path.with_name(stem(image.path.name) + MASK_SUFFIX)


def stem(name: str) -> str:
    """Return a file name without extension."""
    head, dot, _ = name.rpartition(".")
    return head if dot and head else name


def is_image(name: str) -> bool:
    """Return whether a file name is that of an image, not of a mask or thumbnail."""
    name = name.lower()
    if name.endswith((_THUMBNAIL_SUFFIX, MASK_SUFFIX, CONDITIONING_SUFFIX)):
        return False
    ending = "." + name.rpartition(".")[2]
    return ending in IMAGE_SUFFIXES or ending in UNREAD_SUFFIXES


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link to a folder that may not be read


def _identity(path: str) -> object:
    """Return what is the same for all paths of a folder: its device and number."""
    try:
        found = Path(path).stat()
    except OSError:
        return path  # reading it fails as well, which is reported
    return (found.st_dev, found.st_ino) if found.st_ino else os.path.realpath(path)


def _too_many_error(root: Path, what: str) -> UserError:
    return UserError(
        f"{root}: more than {what}",
        "Expected a folder of images with their captions",
        "Choose the folder of the images itself, or turn subfolders off.",
    )


def _unusable_reason(entry: "os.DirEntry[str]", name: str) -> str:
    """Return why a file of some name cannot be used as an image; empty if it can."""
    suffix = "." + entry.name.lower().rpartition(".")[2]
    try:
        ordinary = entry.is_file()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if ordinary and suffix in UNREAD_SUFFIXES:
        kind = kind_of_file(Path(entry.path))
        if kind is not None and kind.suffix:
            return f"{kind.noun}, but its name ends in {suffix}; {kind.remedy}"
        return f"{suffix} images are not supported; {SAVE}"
    if ordinary:
        # Python has surrogates for invalid bytes.
        return NAMELESS if _SURROGATE.search(name) else ""
    return "a link to nothing" if entry.is_symlink() else "not an ordinary file"
