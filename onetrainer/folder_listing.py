"""What in a folder looks like a picture, in an order that every machine agrees on."""

import os
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PICTURE_SUFFIXES = frozenset(
    [".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif"]
)
"""What is taken for a picture that can be read."""

UNREAD_SUFFIXES = frozenset(
    [".jxl", ".heic", ".heif", ".psd", ".tga", ".jp2", ".svg", ".dng", ".cr2", ".nef", ".arw"]
)
"""Pictures too, but of kinds that cannot be read: listed with a reason, so that none is missed."""

MASK_SUFFIX = "-masklabel.png"
"""What a mask's name has in place of its picture's ending: people's folders have it so."""


@dataclass(frozen=True)
class Found:
    """A picture by its name, or something that should have been one and why it is not.

    caption, mask: the files of its name beside it, if there are any.
    """

    path: Path
    caption: Path | None = None
    mask: Path | None = None
    reason: str = ""


def list_pictures(root: Path, *, deep: bool) -> list[Found]:
    """All that looks like a picture, in the order of its path below root."""

    def order(found: Found) -> tuple[list[tuple[str | int, ...]], str]:
        inside = found.path.relative_to(root)
        return [natural_key(part) for part in inside.parts], inside.as_posix()

    return sorted(_walk(root, deep=deep, above=frozenset()), key=order)


def natural_key(name: str) -> tuple[str | int, ...]:
    """Sorts names as people do: 2 before 10, a beside A, ü the same from every system."""
    parts = re.split(r"(\d+)", unicodedata.normalize("NFC", name).casefold())
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts))


def _walk(folder: Path, *, deep: bool, above: frozenset[str]) -> Iterator[Found]:
    """What a folder holds, in any order. above: the real folders that lead here."""
    real = os.path.realpath(folder)
    if real in above:
        return  # a link back up
    try:
        with os.scandir(folder) as entries:
            files = [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        yield Found(folder, reason=f"this folder cannot be read ({error.strerror})")
        return
    # Sorted, so that of x.TXT and x.txt the latter stays.
    texts = sorted(entry.name for entry in files if entry.name.lower().endswith(".txt"))
    captions = {Path(name).stem: folder / name for name in texts}
    labels = sorted(entry.name for entry in files if entry.name.lower().endswith(MASK_SUFFIX))
    masks = {name[: -len(MASK_SUFFIX)]: folder / name for name in labels}
    for entry in files:
        path = folder / entry.name
        if _is_folder(entry):
            if deep:
                yield from _walk(path, deep=True, above=above | {real})
        elif _is_picture(entry.name):
            yield Found(path, captions.get(path.stem), masks.get(path.stem), _unfit(entry))


def _is_picture(name: str) -> bool:
    name = name.lower()
    if name.endswith((".thumb.jpg", MASK_SUFFIX)):
        return False
    return Path(name).suffix in PICTURE_SUFFIXES | UNREAD_SUFFIXES


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link to where we may not look


def _unfit(entry: "os.DirEntry[str]") -> str:
    """Why a picture is not even opened; empty if it is."""
    suffix = Path(entry.name).suffix.lower()
    if suffix in UNREAD_SUFFIXES:
        return f"{suffix} pictures are not read; save it as PNG or JPEG"
    try:
        ordinary = entry.is_file()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if ordinary:
        return ""
    return "a link to nothing" if entry.is_symlink() else "not an ordinary file"
