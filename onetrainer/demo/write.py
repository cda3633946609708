"""Writes the demo: a tiny base model, captioned pictures that teach it something new, a config.

A folder that holds the demo already is completed, never reset: people try things in it.
"""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onetrainer.errors import UserError
from onetrainer.run_folder import cannot_write, write_atomic

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
BASE = CONFIGS / "demo" / "base"
TOKENIZER = CONFIGS / "models" / "sd15" / "tokenizer"

# Written first; its presence says that the folder is ours to write in.
MARKER = "about-this-demo.txt"
ABOUT = """\
OneTrainer's demo.

base/      a tiny Stable Diffusion model that draws simple shapes, such as
           "a small red heart on a night background"
pictures/  captioned pictures of smileys, which it cannot draw yet
demo.json  the config of a short training that teaches it

Delete the folder whenever you like; `onetrainer demo FOLDER` writes a new one.
"""


# In colors and backgrounds that do not come together in the pictures: learned, not remembered.
SAMPLES = (
    ("a yellow smiley on a green background", 1),
    ("a pink smiley on a sunset background", 2),
    ("a green smiley on a yellow background", 3),
    ("an orange smiley on a night background", 4),
)


@dataclass(frozen=True)
class DemoFiles:
    """Where the demo's parts are."""

    folder: Path
    base: Path
    pictures: Path
    config: Path


def write_demo(folder: Path) -> DemoFiles:
    """Writes the demo into a new or empty folder, or completes the demo in it.

    Raises UserError if the folder holds anything else, or cannot be written.
    """
    folder = folder.absolute()
    files = DemoFiles(folder, folder / "base", folder / "pictures", folder / "demo.json")
    try:
        _claim(folder)
        _write_base(files.base)
        _write_pictures(files.pictures)
        if not files.config.exists():
            write_atomic(files.config, (json.dumps(demo_config(), indent=2) + "\n").encode())
    except OSError as error:
        raise cannot_write(folder, error) from error
    return files


def demo_config() -> dict[str, Any]:
    """The demo's settings that differ from the defaults; paths are relative to the file."""
    return {
        "version": 1,
        "description": "Teaches the demo's tiny model to draw smileys, in about a minute.",
        "model": {"family": "sd15", "path": "base"},
        "data": {"folder": "pictures", "resolution": 128},
        "method": {"kind": "lora", "rank": 16, "alpha": 16.0, "targets": "full"},
        "training": {"steps": 200, "batch_size": 6},
        "optimizer": {"kind": "adamw", "lr": 4e-3},
        "schedule": {"kind": "cosine", "warmup_steps": 10},
        "sampling": {
            "prompts": [
                {"prompt": prompt, "seed": seed, "width": 128, "height": 128}
                for prompt, seed in SAMPLES
            ],
            "every": 50,
            "steps": 20,
            "guidance": 3.0,
        },
        "output": {"name": "demo-smiley", "folder": "runs", "save_every": 100},
        # The model is so small that other precisions and a second thread gain nothing; on a busy
        # machine two threads wait for each other at each of thousands of tiny layers (measured: no
        # step in four minutes, against 0.2 s a step with one).
        "hardware": {"precision": "fp32", "threads": 1},
    }


def _claim(folder: Path) -> None:
    """Makes the folder and marks it as the demo's."""
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
        "The demo goes into a new or empty folder, or one that holds the demo already",
        "Name another folder.",
    )


def _write_base(base: Path) -> None:
    """Copies the model; files that differ are from another version of the program."""
    sources = [(path, base / path.relative_to(BASE)) for path in BASE.rglob("*")]
    sources += [(path, base / "tokenizer" / path.name) for path in TOKENIZER.iterdir()]
    for source, target in sources:
        if source.is_file():
            content = source.read_bytes()
            if not (target.is_file() and target.read_bytes() == content):
                target.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(target, content)


def _write_pictures(folder: Path) -> None:
    """Draws the pictures that are missing, and writes the captions that are."""
    from onetrainer.demo.smileys import smileys  # here, so that naming the demo loads no Pillow

    folder.mkdir(exist_ok=True)
    for index, smiley in enumerate(smileys()):
        picture = folder / f"smiley-{index + 1:02d}.png"
        caption = picture.with_suffix(".txt")
        if not caption.exists():
            write_atomic(caption, (smiley.caption() + "\n").encode())
        if not picture.exists():
            content = io.BytesIO()
            smiley.draw().save(content, "PNG")
            write_atomic(picture, content.getvalue())
