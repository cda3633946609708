"""What in a folder looks like a picture, in an order that every machine agrees on."""

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
"""What is taken for a picture that can be read."""

UNREAD_SUFFIXES = frozenset(
    [".jxl", ".heic", ".heif", ".psd", ".tga", ".jp2", ".svg", ".dng", ".cr2", ".nef", ".arw"]
)
"""Pictures too, but of kinds that cannot be read: listed with a reason, so that none is missed."""

MASK_SUFFIX = "-masklabel.png"
"""What a mask's name has in place of its picture's ending: people's folders have it so."""

CONDITIONING_SUFFIX = "-condlabel.png"
"""What the name of a picture has that an inpainting model is shown beside another one."""

NAMELESS = "its name, or that of its folder, is in no known encoding; give it another one"
"""Of names that are no text on this system. Draws, messages and the cache all go by names."""

_THUMBNAIL_SUFFIX = ".thumb.jpg"
_DIGITS = re.compile(r"(\d+)")


class FolderImage(NamedTuple):
    """A picture by its name, or something that should have been one and why it is not.

    name: its path below the folder listed, with "/" and in one spelling (NFC). caption, mask,
    conditioning: the files of its name beside it, if there are any. reason: why it cannot be used;
    empty if it may be looked into.
    """

    path: Path
    name: str
    caption: Path | None = None
    mask: Path | None = None
    conditioning: Path | None = None
    reason: str = ""

    @property
    def group(self) -> str:
        """The folder it lies in, below the one listed; "" for that itself."""
        return self.name.rpartition("/")[0]

    @property
    def stem(self) -> str:
        """Its file's name without the ending."""
        return stem(self.name.rpartition("/")[2])


@dataclass(frozen=True)
class FolderListing:
    """A folder's pictures in order, and the files that belong to none.

    captions, labels: text files, and masks or conditioning pictures, that are named like no
    picture beside them. inner: the folders in it that were not looked into.
    """

    images: tuple[FolderImage, ...]
    captions: tuple[Path, ...] = ()
    labels: tuple[Path, ...] = ()
    inner: tuple[Path, ...] = ()


class _Folder(NamedTuple):
    """A folder on the way down. above: the real folders that lead here, itself included."""

    path: str
    name: str
    key: "tuple[tuple[str | int, ...], ...]"
    above: frozenset[str]


class _Beside(NamedTuple):
    """The files of a folder that may belong to a picture in it, by its name without ending."""

    captions: Mapping[str, Path]
    masks: Mapping[str, Path]
    conditioning: Mapping[str, Path]


def list_images(root: Path, *, recursive: bool) -> tuple[FolderImage, ...]:
    """All that looks like a picture, in the order of its path below root."""
    return list_folder(root, recursive=recursive).images


def list_folder(root: Path, *, recursive: bool) -> FolderListing:
    """All that looks like a picture, in the order of its path below root, and what is left over.

    The order is natural (2 before 10), blind to case, and the same on every file system.
    """
    found: list[tuple[tuple[tuple[str | int, ...], ...], str, FolderImage]] = []
    captions: list[Path] = []
    labels: list[Path] = []
    inner: list[Path] = []
    real = os.path.realpath(root)
    waiting = [_Folder(str(root), "", (), frozenset([real]))]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder.path) as entries:
                files = [entry for entry in entries if not entry.name.startswith(".")]
        except OSError as error:
            reason = f"this folder cannot be read ({error.strerror})"
            name = folder.name.rstrip("/")
            found.append((folder.key, name, FolderImage(Path(folder.path), name, reason=reason)))
            continue
        beside = _beside(folder.path, files)
        used: set[str] = set()
        for entry in files:
            if _is_folder(entry):
                if recursive:
                    waiting += _inner(folder, entry)
                else:
                    inner.append(Path(entry.path))
            elif is_image(entry.name):
                each = _found(folder, entry, beside)
                used.add(each.stem)
                found.append(((*folder.key, natural_key(entry.name)), each.name, each))
        captions += _left(beside.captions, used)
        labels += [*_left(beside.masks, used), *_left(beside.conditioning, used)]
    found.sort(key=lambda each: each[:2])
    images = tuple(each for _, _, each in found)
    return FolderListing(images, tuple(captions), tuple(labels), tuple(sorted(inner)))


def count_images(folder: Path) -> int:
    """How many pictures lie in a folder itself; 0 of one that cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sum(is_image(entry.name) for entry in entries if entry.name[0] != ".")
    except OSError:
        return 0


def natural_key(name: str) -> tuple[str | int, ...]:
    """Sorts names as people do: 2 before 10, a beside A, ü the same from every system."""
    parts: list[str | int] = [*_DIGITS.split(normalize_name(name).casefold())]
    parts[1::2] = map(int, parts[1::2])
    return tuple(parts)


def normalize_name(name: str) -> str:
    """One spelling of "ü" on every system (NFC): the same picture has the same name everywhere."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def stem(name: str) -> str:
    """A file's name without its ending."""
    head, dot, _ = name.rpartition(".")
    return head if dot and head else name


def is_image(name: str) -> bool:
    """Whether a file's name is that of a picture to show, no mask and no thumbnail."""
    name = name.lower()
    if name.endswith((_THUMBNAIL_SUFFIX, MASK_SUFFIX, CONDITIONING_SUFFIX)):
        return False
    ending = "." + name.rpartition(".")[2]
    return ending in IMAGE_SUFFIXES or ending in UNREAD_SUFFIXES


def _inner(folder: _Folder, entry: "os.DirEntry[str]") -> Iterator[_Folder]:
    """A folder within a folder; nothing if it is a link back up."""
    real = os.path.realpath(entry.path)
    if real not in folder.above:
        name = f"{folder.name}{normalize_name(entry.name)}/"
        key = (*folder.key, natural_key(entry.name))
        yield _Folder(entry.path, name, key, folder.above | {real})


def _beside(folder: str, files: "list[os.DirEntry[str]]") -> _Beside:
    # Sorted, so that of x.TXT and x.txt the latter stays.
    names = sorted(entry.name for entry in files if entry.name.lower().endswith((".txt", ".png")))

    def ending(suffix: str) -> dict[str, Path]:
        return {
            normalize_name(name[: -len(suffix)]): Path(folder, name)
            for name in names
            if name.lower().endswith(suffix)
        }

    return _Beside(ending(".txt"), ending(MASK_SUFFIX), ending(CONDITIONING_SUFFIX))


def _found(folder: _Folder, entry: "os.DirEntry[str]", beside: _Beside) -> FolderImage:
    name = normalize_name(entry.name)
    own = stem(name)
    return FolderImage(
        Path(entry.path),
        folder.name + name,
        beside.captions.get(own),
        beside.masks.get(own),
        beside.conditioning.get(own),
        _unfit(entry) or ("" if _is_text(folder.name + name) else NAMELESS),
    )


def _left(files: Mapping[str, Path], used: set[str]) -> list[Path]:
    return [path for name, path in files.items() if name not in used]


def _is_text(name: str) -> bool:
    """Whether a name can be written down; Python has stand-ins for bytes that mean nothing."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link to where we may not look


def _unfit(entry: "os.DirEntry[str]") -> str:
    """Why a picture is not even opened; empty if it is."""
    suffix = "." + entry.name.lower().rpartition(".")[2]
    if suffix in UNREAD_SUFFIXES:
        return f"{suffix} pictures are not read; save it as PNG or JPEG"
    try:
        ordinary = entry.is_file()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if ordinary:
        return ""
    return "a link to nothing" if entry.is_symlink() else "not an ordinary file"
