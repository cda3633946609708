"""A folder of pictures and captions, listed: what is learnt, and what is left out and why."""

import os
from dataclasses import dataclass
from pathlib import Path

from onetrainer.buckets import Bucket, bucket_for
from onetrainer.caption_file import CaptionError, read_caption
from onetrainer.errors import UserError
from onetrainer.folder_listing import list_pictures
from onetrainer.picture_file import PictureError, opened, orientation, upright_size

MAX_ASPECT = 8
"""Longer pictures are skipped: of 8:1, a bucket of 4:1 shows half already."""

MIN_SIDE = 16
"""Smaller pictures, in pixels a side, are skipped: blown up they teach nothing but blur."""

EXAMPLES = 3
"""How many pictures an error names."""


@dataclass(frozen=True)
class Item:
    """One picture with its caption. width, height: in pixels, upright (after EXIF rotation)."""

    path: Path
    caption: str
    width: int
    height: int
    bucket: Bucket


@dataclass(frozen=True)
class Skipped:
    """A picture, or folder, that is left out. reason: in words."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path.name}: {self.reason}"


@dataclass(frozen=True)
class DatasetIndex:
    """What a folder holds.

    uncaptioned: how many of the items have no caption. notes: other things worth telling.
    """

    items: tuple[Item, ...]
    skipped: tuple[Skipped, ...]
    uncaptioned: int
    notes: tuple[str, ...] = ()


def index_folder(
    folder: str | Path,
    *,
    resolution: int,
    include_subfolders: bool = False,
    require_captions: bool = True,
) -> DatasetIndex:
    """Lists a folder's pictures in the order of their names, reading headers only.

    The order is natural (2 before 10), blind to case, and the same on every file system.
    Raises UserError if there is nothing to learn, or no caption though captions are required.
    """
    root = _checked(folder)
    items, skipped, notes = [], [], []
    for found in list_pictures(root, deep=include_subfolders):
        if found.reason:
            skipped.append(Skipped(found.path, found.reason))
            continue
        try:
            caption, encoding = read_caption(found.caption) if found.caption else ("", "utf-8")
            items.append(_item(found.path, caption, resolution))
        except (PictureError, CaptionError) as error:
            skipped.append(Skipped(found.path, error.reason))
            continue
        if encoding == "cp1252":
            notes.append(
                f"{found.path.stem}.txt is not UTF-8; it was read as Windows text (cp1252)"
            )

    if not items:
        raise _nothing_to_learn(root, skipped, deep=include_subfolders)
    uncaptioned = sum(not item.caption for item in items)
    if require_captions and uncaptioned == len(items):
        raise _no_captions(root, items)
    return DatasetIndex(tuple(items), tuple(skipped), uncaptioned, tuple(notes))


def _item(path: Path, caption: str, resolution: int) -> Item:
    """Raises PictureError if the header cannot be read, or tells of a size that is no use."""
    width, height = _upright_size(path)
    size = f"{width} × {height} pixels"
    if min(width, height) < MIN_SIDE:
        raise PictureError(path, f"{size}, too small: at least {MIN_SIDE} a side are needed")
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise PictureError(path, f"{size}, too long: more than {MAX_ASPECT} to 1")
    return Item(path, caption, width, height, bucket_for(width, height, resolution))


def _upright_size(path: Path) -> tuple[int, int]:
    try:
        with path.open("rb") as file, opened(file, path) as image:
            return upright_size(image, orientation(image, file))
    except OSError as error:
        raise PictureError(path, f"cannot be read ({error.strerror})") from error


def _checked(folder: str | Path) -> Path:
    """The folder, if there is one and it can be looked into."""
    choose = 'Choose another folder under "Pictures"'
    expected = "A folder of pictures is needed"
    if not str(folder).strip():
        raise UserError("No folder of pictures is chosen", expected, 'Choose one under "Pictures"')
    root = Path(folder).expanduser()
    if not root.exists():
        raise UserError(f"{root}: there is no such folder", expected, choose)
    if not root.is_dir():
        raise UserError(f"{root} is a file, not a folder", expected, choose)
    try:
        with os.scandir(root) as entries:
            empty = next(entries, None) is None
    except OSError as error:
        what = f"{root}: this folder cannot be read ({error.strerror})"
        raise UserError(what, expected, "Allow reading it, or choose another") from error
    if empty:
        raise UserError(f"{root} is empty", expected, "Put pictures there, or choose another")
    return root


def _nothing_to_learn(root: Path, skipped: list[Skipped], *, deep: bool) -> UserError:
    if skipped:
        some = "; ".join(map(str, skipped[:EXAMPLES]))
        more = f"; and {len(skipped) - EXAMPLES} more" if len(skipped) > EXAMPLES else ""
        what = f"{root}: none of its {len(skipped)} pictures can be used ({some}{more})"
        return UserError(what, "At least one usable picture is needed", "Replace or repair them")
    inside = [] if deep else list_pictures(root, deep=True)
    if inside:
        where = inside[0].path.parent.relative_to(root).as_posix()
        what = f'{root} has no pictures itself, only in folders within it ("{where}")'
        return UserError(what, remedy='Turn on "Include subfolders", or choose one of them')
    return UserError(
        f"{root} has no pictures",
        "PNG, JPEG, WebP, BMP, GIF, TIFF or AVIF files are needed",
        "Put some there, or choose another folder",
    )


def _no_captions(root: Path, items: list[Item]) -> UserError:
    example = items[0].path
    return UserError(
        f"{root}: none of its {len(items)} pictures has a caption",
        f'A text file beside each is needed, such as "{example.stem}.txt" for "{example.name}"',
        'Write captions, or turn off "Require captions" (data.require_captions) to train without',
    )
