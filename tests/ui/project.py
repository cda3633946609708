"""A project that passes every check before a start, made without torch in milliseconds."""

import io
import json
import math
import struct
from functools import cache
from pathlib import Path
from typing import Any

from onetrainer.errors import Problem
from onetrainer.families.registry import family_spec
from onetrainer.model_files.wholeness import whole_file
from tests.ui.fake_paint import paint
from ui.model.draft import Draft

PARTS = whole_file(family_spec("sd15"))
SDXL_PARTS = whole_file(family_spec("sdxl"))
# The keys that say that a model predicts velocity, on a schedule that ends in pure noise.
MARKERS = {"v_pred": (0,), "ztsnr": (0,)}
PROMPTS = (
    "a round balloon over the sea, watercolor",
    "a paper tent in a field of lavender",
    "a star of folded paper on a wooden table",
)


def write_project(folder: Path, **changes: dict[str, Any]) -> Path:
    """Base model, captioned images and a config; the config's path."""
    folder.mkdir(parents=True, exist_ok=True)
    write_model(folder / "base.safetensors")
    write_images(folder / "pictures")
    document: dict[str, Any] = {
        "description": "Paper things in watercolor",
        "model": {"path": "base.safetensors"},
        "data": {"folder": "pictures", "resolution": 64},
        "training": {"steps": 60, "batch_size": 4},
        "sampling": {
            "prompts": [
                {"prompt": prompt, "seed": 7 + place, "width": 128, "height": 128}
                for place, prompt in enumerate(PROMPTS)
            ],
            "every": 10,
        },
        "output": {"name": "paper", "folder": "runs", "save_every": 20},
    }
    for section, values in changes.items():
        document[section] = {**document.get(section, {}), **values}
    path = folder / "paper.json"
    path.write_text(json.dumps(document))
    return path


def write_model(path: Path, parts: dict[str, tuple[int, ...]] = PARTS) -> Path:
    header: dict[str, Any] = {}
    end = 0
    for name, shape in parts.items():
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)  # takes hardly any room on the disk
        for entry in header.values():
            begin, end = entry["data_offsets"]
            file.seek(8 + len(text) + begin)
            file.write(b"\1" if end > begin else b"")  # no trained tensor is zero
    return path


def write_images(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for place in range(12):
        (folder / f"paper-{place:02d}.png").write_bytes(_image_bytes(place))
        caption = "a paper thing, watercolor" + (", at dusk" if place == 5 else "")
        (folder / f"paper-{place:02d}.txt").write_text(caption)


def errors_of(draft: Draft) -> list[Problem]:
    """The problems that prevent a start."""
    return [problem for problem in draft.problems if problem.severity in ("error", "missing")]


@cache
def _image_bytes(place: int) -> bytes:
    file = io.BytesIO()
    paint(place, 1.0, size=96).save(file, "PNG")
    return file.getvalue()
