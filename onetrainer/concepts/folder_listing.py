"""List the image files of a folder in an order that all machines agree on."""

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

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
"""The same for conditioning images of inpainting models."""

NAMELESS = "its name, or that of its folder, has an unknown encoding; rename it"
"""Reason for names that are not text on this system: seeds, messages and the cache need names."""

_THUMBNAIL_SUFFIX = ".thumb.jpg"
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


@dataclass(frozen=True)
class FolderListing:
    """A folder's images in order, captions, masks and conditioning images that belong to none.

    inner: Subfolders that were not read.
    """

    images: tuple[FolderImage, ...]
    captions: tuple[Path, ...] = ()
    companion_images: tuple[Path, ...] = ()
    inner: tuple[Path, ...] = ()


class _Folder(NamedTuple):
    """A folder to read; above holds the real paths that lead to it, including its own."""

    path: str
    name: str
    key: "tuple[tuple[str | int, ...], ...]"
    above: frozenset[str]


class _Companions(NamedTuple):
    """Companion files of a folder, by the name of their image without extension."""

    captions: Mapping[str, Path]
    masks: Mapping[str, Path]
    conditioning: Mapping[str, Path]


def list_folder(root: Path, *, recursive: bool) -> FolderListing:
    """Return all images of a folder in the order of their paths, and the files without an image.

    The order is natural (2 before 10), case-insensitive, and the same on every file system.
    """
    found: list[tuple[tuple[tuple[str | int, ...], ...], str, FolderImage]] = []
    captions: list[Path] = []
    companion_images: list[Path] = []
    inner: list[Path] = []
    real = os.path.realpath(root)
    pending = [_Folder(str(root), "", (), frozenset([real]))]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder.path) as entries:
                files = [entry for entry in entries if not entry.name.startswith(".")]
        except OSError as error:
            reason = f"this folder cannot be read ({error.strerror})"
            name = folder.name.rstrip("/")
            found.append((folder.key, name, FolderImage(Path(folder.path), name, reason=reason)))
            continue
        companions = _find_companions(folder.path, files)
        used: set[str] = set()
        for entry in files:
            if _is_folder(entry):
                if recursive:
                    pending += _subfolders(folder, entry)
                else:
                    inner.append(Path(entry.path))
            elif is_image(entry.name):
                image = _folder_image(folder, entry, companions)
                used.add(image.stem)
                found.append(((*folder.key, natural_key(entry.name)), image.name, image))
        captions += [path for name, path in companions.captions.items() if name not in used]
        companion_images += [
            path
            for files_by_name in (companions.masks, companions.conditioning)
            for name, path in files_by_name.items()
            if name not in used
        ]
    found.sort(key=lambda image: image[:2])
    images = tuple(image for _, _, image in found)
    return FolderListing(images, tuple(captions), tuple(companion_images), tuple(sorted(inner)))


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


def _subfolders(folder: _Folder, entry: "os.DirEntry[str]") -> Iterator[_Folder]:
    """Yield a subfolder unless it is a link to a folder above."""
    real = os.path.realpath(entry.path)
    if real not in folder.above:
        name = f"{folder.name}{normalize_name(entry.name)}/"
        key = (*folder.key, natural_key(entry.name))
        yield _Folder(entry.path, name, key, folder.above | {real})


def _find_companions(folder: str, files: "list[os.DirEntry[str]]") -> _Companions:
    # Sorted, so that of x.TXT and x.txt the latter is used.
    names = sorted(entry.name for entry in files if entry.name.lower().endswith((".txt", ".png")))

    def ending(suffix: str) -> dict[str, Path]:
        return {
            normalize_name(name[: -len(suffix)]): Path(folder, name)
            for name in names
            if name.lower().endswith(suffix)
        }

    return _Companions(ending(".txt"), ending(MASK_SUFFIX), ending(CONDITIONING_SUFFIX))


def _folder_image(
    folder: _Folder, entry: "os.DirEntry[str]", companions: _Companions
) -> FolderImage:
    name = normalize_name(entry.name)
    image_stem = stem(name)
    return FolderImage(
        Path(entry.path),
        folder.name + name,
        companions.captions.get(image_stem),
        companions.masks.get(image_stem),
        companions.conditioning.get(image_stem),
        # Python has surrogates for invalid bytes.
        _unusable_reason(entry) or (NAMELESS if _SURROGATE.search(folder.name + name) else ""),
    )


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link to a folder that may not be read


def _unusable_reason(entry: "os.DirEntry[str]") -> str:
    """Return why a file cannot be opened as an image; empty if it can."""
    suffix = "." + entry.name.lower().rpartition(".")[2]
    if suffix in UNREAD_SUFFIXES:
        return f"{suffix} images are not supported; save it as PNG or JPEG"
    try:
        ordinary = entry.is_file()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if ordinary:
        return ""
    return "a link to nothing" if entry.is_symlink() else "not an ordinary file"
