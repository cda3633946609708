"""The folder that pictures are drawn into: its numbers, and whether it can take them."""

import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from PIL import Image

from modules.sampling.image_files import Settings, write_png
from onetrainer.errors import UserError

NUMBERED = re.compile(r"(\d+)-.*\.png")
BYTES_PER_PIXEL = 3
"""Of a picture that cannot be compressed; most take half of it."""

_GIB, _MIB = 1024**3, 1024**2


def first_free(folder: Path) -> int:
    """The number after the highest one of the pictures in a folder."""
    if not folder.is_dir():
        return 1
    numbers = [NUMBERED.fullmatch(path.name) for path in folder.iterdir()]
    return max((int(found[1]) for found in numbers if found), default=0) + 1


def require_writable(folder: Path) -> None:
    """Raises UserError unless files can be made in the folder; leaves nothing behind."""
    missing: list[Path] = []
    try:
        missing += [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _cannot_write(folder, error) from error
    finally:
        for place in missing:
            with suppress(OSError):
                place.rmdir()


def require_room(folder: Path, pixels: int) -> None:
    """Raises UserError unless pictures of so many pixels in all fit on the folder's disk."""
    place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    needed, free = BYTES_PER_PIXEL * pixels, shutil.disk_usage(place).free
    if free < needed:
        raise UserError(
            f"{folder}: the pictures take up to {_size(needed)}, and the disk has {_size(free)}"
            " free",
            "Enough room for all of them was expected",
            "Make room, draw fewer of them, or choose a folder on another disk with --out",
        )


def write_image(image: Image.Image, path: Path, settings: Settings | None) -> None:
    """Writes the PNG, complete or not at all. settings: None for what is no single picture."""
    try:
        write_png(image, path, settings)
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> UserError:
    return UserError(
        f"{path}: cannot write here ({(error.strerror or str(error)).lower()})",
        "Expected a folder on a disk with free space that you may write to",
        "Free some space or choose another folder with --out",
    )


def _size(count: int) -> str:
    return f"{count / _GIB:.1f} GiB" if count >= _GIB else f"{count / _MIB:.1f} MiB"
