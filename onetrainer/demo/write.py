"""Writing of the demo: a tiny base model, captioned training images, configs.

The model and the configs, one per training method, are copied from `configs/demo`. They compute in
fp32 with one thread: other precisions and a second thread do not speed up such a small model, and
on a busy machine two threads wait for each other at each of thousands of tiny layers.

A folder that already holds the demo is completed, never reset: people try things in it.
"""

import io
from pathlib import Path

from onetrainer import ROOT
from onetrainer.errors import UserError
from onetrainer.families.spec import CLIP_TOKENIZER
from onetrainer.files.atomic import write_atomic
from onetrainer.files.names import require_portable
from onetrainer.json_file import Document, read_json
from onetrainer.run.run_folder import cannot_write

CONFIGS = ROOT / "configs" / "demo"
BASE = CONFIGS / "base"

# Written first; marks the folder as the demo's.
MARKER = "about-this-demo.txt"
ABOUT = """\
OneTrainer's demo.

base/      a tiny Stable Diffusion model that draws simple shapes, such as
           "a small red heart on a night background"
pictures/  captioned images of smileys, which it cannot generate yet
signs/     images of one shape that it can generate but has no token for
demo.json  the config of a short LoRA training on the smileys
demo-….json  configs for other training methods; demo-alignprop.json uses no
           images: it trains on the score of the images that it generates

Delete the folder whenever you like; `onetrainer demo FOLDER` writes a new one.
"""


def demo_configs() -> dict[str, Document]:
    """Return the configs by file name. Paths are relative to the file."""
    return {path.name: read_json(path) for path in sorted(CONFIGS.glob("*.json"))}


def write_demo(folder: Path) -> Path:
    """Write the demo into a new or empty folder, or complete the demo in it.

    Returns the main config. Raises UserError if the folder holds anything else, or cannot be
    written.
    """
    from onetrainer.demo.images import signs, smileys  # here, since it loads Pillow

    folder = folder.absolute()
    try:
        _claim(folder)
        write_base(folder / "base")
        for name, images in (("pictures/smiley", smileys()), ("signs/sign", signs())):
            for index, (caption, image) in enumerate(images, 1):
                png = io.BytesIO()
                image.save(png, "PNG")
                _write(folder / f"{name}-{index:02d}.txt", f"{caption}\n".encode())
                _write(folder / f"{name}-{index:02d}.png", png.getvalue())
        for source in CONFIGS.glob("*.json"):
            _write(folder / source.name, source.read_bytes())
    except OSError as error:
        raise cannot_write(folder, error) from error
    return folder / "demo.json"


def write_base(folder: Path) -> None:
    """Write the tiny base model; replaces files of another version."""
    for source in (path for path in BASE.rglob("*") if path.is_file()):
        _write(folder / source.relative_to(BASE), source.read_bytes(), replace=True)
    for source in CLIP_TOKENIZER.iterdir():
        _write(folder / "tokenizer" / source.name, source.read_bytes(), replace=True)


def _claim(folder: Path) -> None:
    """Create the folder and mark it as the demo's."""
    require_portable(folder)
    marker = folder / MARKER
    if folder.exists() and not folder.is_dir():
        what = f"{folder}: this is a file"
    elif folder.is_dir() and not marker.is_file() and any(folder.iterdir()):
        what = f"{folder}: this folder holds other files"
    else:
        _write(marker, ABOUT.encode())
        return
    raise UserError(
        what,
        "Expected a new or empty folder, or one that holds the demo",
        "Choose another folder.",
    )


def _write(path: Path, content: bytes, *, replace: bool = False) -> None:
    """Write a missing file; with `replace` also one of other content."""
    if not path.exists() or (replace and path.read_bytes() != content):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)
