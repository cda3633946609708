"""The output folder of samples: image numbers, and whether it is writable."""

import re
import tempfile
from contextlib import suppress
from pathlib import Path

from PIL import Image

from modules.sampling.image_files import Settings, write_png
from onetrainer.files.names import require_portable
from onetrainer.run.run_folder import cannot_write

NUMBERED = re.compile(r"(\d+)-.*\.png")
BYTES_PER_PIXEL = 3
"""Of an incompressible image; most take half of it."""


def next_number(folder: Path) -> int:
    """Return the number after the highest one of the images in a folder."""
    if not folder.is_dir():
        return 1
    matches = [NUMBERED.fullmatch(path.name) for path in folder.iterdir()]
    return max((int(match[1]) for match in matches if match), default=0) + 1


def require_writable(folder: Path) -> None:
    """Raise UserError unless files can be created in the folder; leave nothing behind."""
    require_portable(folder)
    missing: list[Path] = []
    try:
        missing += [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise cannot_write(folder, error, "--out") from error
    finally:
        for path in missing:
            with suppress(OSError):
                path.rmdir()


def write_image(image: Image.Image, path: Path, settings: Settings | None) -> None:
    """Write a PNG atomically. settings: None for what is no single image."""
    try:
        write_png(image, path, settings)
    except OSError as error:
        raise cannot_write(path, error, "--out") from error
