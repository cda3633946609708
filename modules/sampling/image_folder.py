"""The output folder of samples: image numbers, and whether it is writable and has room."""

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
"""Of an incompressible image; most take half of it."""

_GIB, _MIB = 1024**3, 1024**2


def next_number(folder: Path) -> int:
    """Return the number after the highest one of the images in a folder."""
    if not folder.is_dir():
        return 1
    matches = [NUMBERED.fullmatch(path.name) for path in folder.iterdir()]
    return max((int(match[1]) for match in matches if match), default=0) + 1


def require_writable(folder: Path) -> None:
    """Raise UserError unless files can be created in the folder; leave nothing behind."""
    missing: list[Path] = []
    try:
        missing += [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _cannot_write(folder, error) from error
    finally:
        for path in missing:
            with suppress(OSError):
                path.rmdir()


def require_room(folder: Path, pixels: int) -> None:
    """Raise UserError unless images of this many pixels in total fit on the folder's disk."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    needed, free = BYTES_PER_PIXEL * pixels, shutil.disk_usage(existing).free
    if free < needed:
        raise UserError(
            f"{folder}: the images take up to {_size(needed)}, and the disk has {_size(free)} free",
            "Expected enough room for all of them",
            "Make room, generate fewer images, or choose a folder on another disk with --out",
        )


def write_image(image: Image.Image, path: Path, settings: Settings | None) -> None:
    """Write a PNG atomically. settings: None for what is no single image."""
    try:
        write_png(image, path, settings)
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> UserError:
    return UserError(
        f"{path}: cannot write here ({(error.strerror or str(error)).lower()})",
        "Expected a writable folder with free disk space",
        "Free some space or choose another folder with --out",
    )


def _size(count: int) -> str:
    return f"{count / _GIB:.1f} GiB" if count >= _GIB else f"{count / _MIB:.1f} MiB"
