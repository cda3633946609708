"""List the image files of a folder in an order that all machines agree on."""

import os
import re
import unicodedata
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
"""The same for conditioning images, which some models see."""

NAMELESS = "its name, or that of its folder, has an unknown encoding; rename it"
"""Reason for names that are not text on this system: seeds, messages and the cache need names."""

_CAPTION_SUFFIX = ".txt"
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
        # Sorted, so that of x.TXT and x.txt the latter is used.
        names = sorted(entry.name for entry in files)
        companions = {
            suffix: {
                normalize_name(name[: -len(suffix)]): Path(folder.path, name)
                for name in names
                if name.lower().endswith(suffix)
            }
            for suffix in (_CAPTION_SUFFIX, MASK_SUFFIX, CONDITIONING_SUFFIX)
        }
        used: set[str] = set()
        for entry in files:
            name = normalize_name(entry.name)
            if _is_folder(entry):
                if not recursive:
                    inner.append(Path(entry.path))
                # A link to a folder above is left out.
                elif (real := os.path.realpath(entry.path)) not in folder.above:
                    key = (*folder.key, natural_key(name))
                    above = folder.above | {real}
                    pending.append(_Folder(entry.path, f"{folder.name}{name}/", key, above))
            elif is_image(entry.name):
                used.add(stem(name))
                caption, mask, conditioning = (
                    by_stem.get(stem(name)) for by_stem in companions.values()
                )
                path, key = Path(entry.path), (*folder.key, natural_key(name))
                name = folder.name + name
                reason = _unusable_reason(entry, name)
                image = FolderImage(path, name, caption, mask, conditioning, reason)
                found.append((key, name, image))
        for suffix, by_stem in companions.items():
            unused = captions if suffix == _CAPTION_SUFFIX else companion_images
            unused += [path for name, path in by_stem.items() if name not in used]
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


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link to a folder that may not be read


def _unusable_reason(entry: "os.DirEntry[str]", name: str) -> str:
    """Return why a file of some name cannot be used as an image; empty if it can."""
    suffix = "." + entry.name.lower().rpartition(".")[2]
    if suffix in UNREAD_SUFFIXES:
        return f"{suffix} images are not supported; save it as PNG or JPEG"
    try:
        ordinary = entry.is_file()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if ordinary:
        # Python has surrogates for invalid bytes.
        return NAMELESS if _SURROGATE.search(name) else ""
    return "a link to nothing" if entry.is_symlink() else "not an ordinary file"
