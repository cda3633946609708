"""Writing of the demo: a tiny base model, captioned training images, configs.

A folder that already holds the demo is completed, never reset: people try things in it.
"""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onetrainer import ROOT
from onetrainer.demo.configs import demo_configs
from onetrainer.errors import UserError
from onetrainer.run.run_folder import cannot_write, write_atomic

if TYPE_CHECKING:
    from PIL.Image import Image

CONFIGS = ROOT / "configs"
BASE = CONFIGS / "demo" / "base"
TOKENIZER = CONFIGS / "models" / "sd15" / "tokenizer"

MAIN = "demo.json"
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


@dataclass(frozen=True)
class DemoFiles:
    """The paths of the demo."""

    folder: Path
    base: Path
    images: Path
    config: Path
    token_images: Path


def write_demo(folder: Path) -> DemoFiles:
    """Write the demo into a new or empty folder, or complete the demo in it.

    Raises UserError if the folder holds anything else, or cannot be written.
    """
    folder = folder.absolute()
    files = DemoFiles(folder, folder / "base", folder / "pictures", folder / MAIN, folder / "signs")
    try:
        _claim(folder)
        _write_base(files.base)
        _write_images(files.images)
        _write_token_images(files.token_images)
        for name, config in demo_configs().items():
            if not (folder / name).exists():
                write_atomic(folder / name, (json.dumps(config, indent=2) + "\n").encode())
    except OSError as error:
        raise cannot_write(folder, error) from error
    return files


def _claim(folder: Path) -> None:
    """Create the folder and mark it as the demo's."""
    marker = folder / MARKER
    if folder.exists() and not folder.is_dir():
        what = f"{folder}: this is a file"
    elif folder.is_dir() and not marker.is_file() and any(folder.iterdir()):
        what = f"{folder}: this folder holds other files"
    else:
        folder.mkdir(parents=True, exist_ok=True)
        if not marker.exists():
            write_atomic(marker, ABOUT.encode())
        return
    raise UserError(
        what,
        "Expected a new or empty folder, or one that holds the demo",
        "Choose another folder.",
    )


def _write_base(base: Path) -> None:
    """Copy the model, replacing files of other program versions."""
    sources = [(path, base / path.relative_to(BASE)) for path in BASE.rglob("*")]
    sources += [(path, base / "tokenizer" / path.name) for path in TOKENIZER.iterdir()]
    for source, target in sources:
        if source.is_file():
            content = source.read_bytes()
            if not (target.is_file() and target.read_bytes() == content):
                target.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(target, content)


def _write_images(folder: Path) -> None:
    """Write missing images and captions."""
    from onetrainer.demo.smileys import smileys  # here, since it loads Pillow

    folder.mkdir(exist_ok=True)
    for index, smiley in enumerate(smileys()):
        _write_image(folder / f"smiley-{index + 1:02d}.png", smiley.caption(), smiley.draw)


def _write_token_images(folder: Path) -> None:
    from onetrainer.demo.token_images import token_images  # loads Pillow, too

    folder.mkdir(exist_ok=True)
    for index, image in enumerate(token_images()):
        _write_image(folder / f"sign-{index + 1:02d}.png", image.caption, image.draw)


def _write_image(image: Path, caption: str, draw: Callable[[], "Image"]) -> None:
    text = image.with_suffix(".txt")
    if not text.exists():
        write_atomic(text, (caption + "\n").encode())
    if not image.exists():
        content = io.BytesIO()
        draw().save(content, "PNG")
        write_atomic(image, content.getvalue())
