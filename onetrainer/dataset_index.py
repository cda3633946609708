"""A folder of pictures and captions, listed: what is learnt, and what is left out and why."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from onetrainer.buckets import Bucket, bucket_for
from onetrainer.caption_file import CaptionError, read_caption
from onetrainer.config.data import Masks
from onetrainer.errors import UserError
from onetrainer.folder_listing import Found, list_pictures
from onetrainer.picture_file import DEEP_MODES, PictureError, opened, orientation, upright_size

MAX_ASPECT = 8
"""Longer pictures are skipped: of 8:1, a bucket of 4:1 shows half already."""

MIN_SIDE = 16
"""Smaller pictures, in pixels a side, are skipped: blown up they teach nothing but blur."""

EXAMPLES = 3
"""How many pictures an error names."""


@dataclass(frozen=True)
class Item:
    """One picture with its caption.

    width, height: in pixels, upright (after EXIF rotation). mask: the picture that tells where this
    one counts, which is its own path where its transparency does; None means that all of it counts.
    is_prior: whether it stands for what the model is to keep, a class picture. concept: the folder
    it lies in, below that which was listed, "" for that itself.
    """

    path: Path
    caption: str
    width: int
    height: int
    bucket: Bucket
    mask: Path | None = None
    is_prior: bool = False
    concept: str = ""


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

    @property
    def masked(self) -> int:
        """How many of the items have a mask."""
        return sum(item.mask is not None for item in self.items)


@dataclass(frozen=True)
class _Header:
    """What a picture's header tells. width, height: upright. has_alpha: parts may show through."""

    width: int
    height: int
    has_alpha: bool


def index_folder(
    folder: str | Path,
    *,
    resolution: int,
    include_subfolders: bool = False,
    require_captions: bool = True,
    masks: Masks = "off",
    label: str = "Pictures",
) -> DatasetIndex:
    """Lists a folder's pictures in the order of their names, reading headers only.

    The order is natural (2 before 10), blind to case, and the same on every file system.
    label: what the folder is called in the window. A picture whose mask cannot be read is skipped:
    without it, it would be learnt as what was not meant.
    Raises UserError if there is nothing to learn, or no caption though captions are required.
    """
    root = _checked(folder, label)
    items: list[Item] = []
    skipped: list[Skipped] = []
    notes: list[str] = []
    for found in list_pictures(root, deep=include_subfolders):
        if found.reason:
            skipped.append(Skipped(found.path, found.reason))
            continue
        try:
            caption, encoding = read_caption(found.caption) if found.caption else ("", "utf-8")
            item = replace(_item(found, caption, resolution, masks), concept=_concept(root, found))
            notes += _mask_notes(item)
        except (PictureError, CaptionError) as error:
            skipped.append(Skipped(found.path, error.reason))
            continue
        items.append(item)
        if encoding == "cp1252":
            notes.append(
                f"{found.path.stem}.txt is not UTF-8; it was read as Windows text (cp1252)"
            )

    if not items:
        raise _nothing_to_learn(root, skipped, deep=include_subfolders)
    uncaptioned = sum(not item.caption for item in items)
    if require_captions and uncaptioned == len(items):
        raise _no_captions(root, items)
    unmasked = sum(item.mask is None for item in items)
    if masks != "off" and unmasked:
        notes.append(f"{unmasked} of {len(items)} pictures have no mask; all of each counts")
    return DatasetIndex(tuple(items), tuple(skipped), uncaptioned, tuple(notes))


def _item(found: Found, caption: str, resolution: int, masks: Masks) -> Item:
    """Raises PictureError if the header cannot be read, or tells of a size that is no use."""
    path, header = found.path, _header(found.path)
    width, height = header.width, header.height
    size = f"{width} × {height} pixels"
    if min(width, height) < MIN_SIDE:
        raise PictureError(path, f"{size}, too small: at least {MIN_SIDE} a side are needed")
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise PictureError(path, f"{size}, too long: more than {MAX_ASPECT} to 1")
    mask = {"off": None, "files": found.mask, "alpha": path if header.has_alpha else None}[masks]
    return Item(path, caption, width, height, bucket_for(width, height, resolution), mask)


def _concept(root: Path, found: Found) -> str:
    below = found.path.parent.relative_to(root).as_posix()
    return "" if below == "." else below


def _mask_notes(item: Item) -> list[str]:
    """What to tell of an item's mask. Raises PictureError if there is one that cannot be read."""
    if item.mask is None or item.mask == item.path:
        return []
    try:
        mask = _header(item.mask)
    except PictureError as error:
        raise PictureError(item.path, f'its mask "{item.mask.name}": {error.reason}') from error
    if _is_same_shape(mask, item):
        return []
    return [
        f"{item.mask.name} is {mask.width} × {mask.height} pixels, of another shape than its"
        f" picture ({item.width} × {item.height}); it is stretched to it"
    ]


def _is_same_shape(mask: _Header, item: Item) -> bool:
    """Whether one is a scaling of the other, up to a pixel that rounding may cost."""
    across = abs(mask.width * item.height - item.width * mask.height)
    return across <= max(item.width, item.height, mask.width, mask.height)


def _header(path: Path) -> _Header:
    try:
        with path.open("rb") as file, opened(file, path) as image:
            width, height = upright_size(image, orientation(image, file))
            # Of 16 bits, no format has an alpha channel that Pillow would give.
            has_alpha = image.has_transparency_data and image.mode not in DEEP_MODES
            return _Header(width, height, has_alpha)
    except OSError as error:
        raise PictureError(path, f"cannot be read ({error.strerror})") from error


def _checked(folder: str | Path, label: str) -> Path:
    """The folder, if there is one and it can be looked into."""
    choose = f'Choose another folder under "{label}"'
    expected = "A folder of pictures is needed"
    if not str(folder).strip():
        remedy = f'Choose one under "{label}"'
        raise UserError("No folder of pictures is chosen", expected, remedy)
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
