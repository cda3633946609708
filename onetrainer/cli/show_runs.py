"""Descriptions of run folders, checkpoints and images."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from onetrainer.config.methods.method import Method
from onetrainer.errors import UserError
from onetrainer.families.registry import FAMILY_LABELS
from onetrainer.files.inside import require_own_files
from onetrainer.files.lines import split_lines
from onetrainer.json_file import Document, read_json
from onetrainer.model_files.hub import is_hub_name
from onetrainer.presets.presets import value_at
from onetrainer.run.history import summary
from onetrainer.run.run_folder import STATE_FILE, RunFolder

SETTINGS = "parameters"
"""The PNG text key of the generation settings, as AUTOMATIC1111's web UI writes them."""
_SETTINGS_LIMIT = 20_000  # characters
_STARTS = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"RIFF")  # WebP is one kind of RIFF
_METHODS: Mapping[str, str] = {
    section.model_fields["kind"].default: section.noun for section in get_args(get_args(Method)[0])
}
# Files of a checkpoint.
_CHECKPOINT_FILES: Mapping[str, str] = {
    "weights.safetensors": "the weights",
    "optimizer.safetensors": "the optimizer state",
    "ema.safetensors": "the EMA weights",
}


@dataclass(frozen=True)
class Description:
    """Description of a file or folder, as JSON and as text lines."""

    document: Document
    lines: list[str]


def run_at(path: Path) -> Description | None:
    """Return the description of a run folder, or of a checkpoint or a file of it; None if neither.

    Raises OSError if the path cannot be read, UserError if in it is what is not of a run.
    """
    run, kind, checkpoint = RunFolder(path), "run", path.absolute()
    if not run.config.is_file() or not (run.events.is_file() or run.checkpoints.is_dir()):
        kind = "checkpoint"
        if path.is_file():
            if path.name not in _CHECKPOINT_FILES:
                return None
            kind, checkpoint = "checkpoint file", checkpoint.parent
        run = RunFolder(checkpoint.parent.parent)
        if not (checkpoint / STATE_FILE).is_file() or not run.config.is_file():
            return None
    require_own_files(run.path)
    config, found = read_json(run.config), summary(run)
    planned = value_at(config, "training.steps")
    checkpoints = {folder.name: step for step, folder in run.complete_checkpoints()}
    files = sorted(run.output.iterdir()) if run.output.is_dir() else []
    # Models for other programs: single files and diffusers folders.
    outputs = [f for f in files if f.suffix == ".safetensors" or (f / "model_index.json").is_file()]
    document = {
        "name": path.name or str(path),
        "kind": kind,
        "run": run.name,
        "standing": found.standing,
        "step": found.step if kind == "run" else checkpoints.get(checkpoint.name, 0),
        "steps": found.total_steps or (planned if isinstance(planned, int) else 0),
        "trains": _trains(config),
        "outputs": [f"output/{file.name}" for file in outputs],
        "checkpoints": list(checkpoints.values()),
    }
    return Description(document, _run_lines(document))


def is_image(path: Path) -> bool:
    """Return whether a file begins with the signature of an image format."""
    with path.open("rb") as file:
        return file.read(8).startswith(_STARTS)


def image_at(path: Path) -> Description:
    """Return the description of an image. Raises UserError if it cannot be read."""
    from onetrainer.images.image_file import ImageError, open_image

    try:
        with path.open("rb") as file, open_image(file, path) as image:
            settings = image.info.get(SETTINGS, "")
            width, height = image.size
    except ImageError as error:
        raise UserError(
            f"{path.name}: this image cannot be read ({error.reason})",
            remedy="Choose another file",
        ) from error
    text = settings[:_SETTINGS_LIMIT] if isinstance(settings, str) else ""
    size = {"width": width, "height": height}
    lines = split_lines(text) or ["No generation settings in this file"]
    return Description(
        {"name": path.name, "kind": "image", **size, "settings": text},
        [
            f"{path.name}: an image of {width} × {height} pixels",
            *(f"  {line}" for line in lines),
        ],
    )


def _run_lines(run: Document) -> list[str]:
    name, trains, outputs = run["name"], f"  Trains: {run['trains']}", ", ".join(run["outputs"])
    if run["kind"] != "run":
        part = f"{_CHECKPOINT_FILES[name]} of " if run["kind"] == "checkpoint file" else ""
        return [
            f"{name}: {part}a checkpoint of the run {run['run']}, after step {run['step']}",
            trains,
            "  Not a model file: `onetrainer convert RUN_FOLDER --step N` makes one of it, and"
            " `onetrainer fork RUN_FOLDER --step N` goes on from it",
        ]
    steps = run["checkpoints"]
    newest, lost = max(steps, default=0), []
    if run["standing"] in ("stopped", "failed", "broken off") and newest < run["step"]:
        first, last = newest + 1, run["step"]
        what = f"step {last} is" if first == last else f"steps {first} to {last} are"
        start = f"step {newest}" if newest else "the beginning"
        lost = [f"  Not saved: {what} lost; a resumed run continues from {start}"]
    return [
        f"{name}: a OneTrainer run folder",
        trains,
        f"  State: {run['standing']}, step {run['step']} of {run['steps']}",
        f"  Checkpoints: {len(steps)}{f', the newest after step {steps[-1]}' if steps else ''}",
        *lost,
        f"  Files: {outputs or 'none in output/ yet'}",
    ]


def _trains(document: Mapping[str, Any]) -> str:
    """Describe what a run trains, for example "a LoRA of rank 16 for SD 2, on my.safetensors"."""
    method = str(value_at(document, "method.kind") or "lora")
    rank = value_at(document, "method.rank")
    family = str(value_at(document, "model.family") or "")
    base = str(value_at(document, "model.path") or "")
    text = _METHODS.get(method, method) + (f" of rank {rank}" if rank else "")
    text += f" for {FAMILY_LABELS.get(family, family)}" if family else ""
    return text + (f", on {base if is_hub_name(base) else Path(base).name}" if base else "")
