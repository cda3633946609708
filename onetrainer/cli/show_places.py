"""Descriptions of run folders, checkpoints and images."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from onetrainer.config.methods.method import Method
from onetrainer.errors import UserError
from onetrainer.families.registry import FAMILY_LABELS
from onetrainer.json_file import read_json
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
class RunDescription:
    """The description of a run folder, a checkpoint in it, or a file of the checkpoint.

    kind: "run", "checkpoint" or "checkpoint file". outputs: Finished files, relative to the folder.
    checkpoints: Steps that can be resumed from. trains: As text.
    """

    name: str
    kind: str
    run: str
    standing: str
    step: int
    steps: int
    trains: str
    outputs: tuple[str, ...]
    checkpoints: tuple[int, ...]

    def lines(self) -> list[str]:
        """Return the description as lines of text."""
        if self.kind != "run":
            part = f"{_CHECKPOINT_FILES[self.name]} of " if self.kind == "checkpoint file" else ""
            return [
                f"{self.name}: {part}a checkpoint of the run {self.run}, after step {self.step}",
                f"  Trains: {self.trains}",
                "  Not a model file. `onetrainer resume RUN_FOLDER` resumes the newest checkpoint",
            ]
        newest = f", the newest after step {self.checkpoints[-1]}" if self.checkpoints else ""
        return [
            f"{self.name}: a OneTrainer run folder",
            f"  Trains: {self.trains}",
            f"  State: {self.standing}, step {self.step} of {self.steps}",
            f"  Checkpoints: {len(self.checkpoints)}{newest}",
            f"  Files: {', '.join(self.outputs) or 'none in output/ yet'}",
        ]


@dataclass(frozen=True)
class ImageDescription:
    """The description of an image. settings: The generation settings stored in it, "" for none."""

    name: str
    kind: str
    width: int
    height: int
    settings: str

    def lines(self) -> list[str]:
        """Return the size and the generation settings as lines of text."""
        settings = [f"  {line}" for line in self.settings.splitlines()]
        return [
            f"{self.name}: an image of {self.width} × {self.height} pixels",
            *(settings or ["  No generation settings in this file"]),
        ]


def run_at(path: Path) -> RunDescription | None:
    """Return the description of a run folder, or of a checkpoint or a file of it; None if neither.

    Raises OSError if the path cannot be read.
    """
    run = RunFolder(path)
    if run.config.is_file() and (run.events.is_file() or run.checkpoints.is_dir()):
        return _run(run, path, kind="run", checkpoint="")
    is_file = path.is_file()
    if is_file and path.name not in _CHECKPOINT_FILES:
        return None
    checkpoint = path.absolute().parent if is_file else path.absolute()
    owner = RunFolder(checkpoint.parent.parent)
    if not (checkpoint / STATE_FILE).is_file() or not owner.config.is_file():
        return None
    kind = "checkpoint file" if is_file else "checkpoint"
    return _run(owner, path, kind=kind, checkpoint=checkpoint.name)


def is_image(path: Path) -> bool:
    """Return whether a file begins with the signature of an image format."""
    with path.open("rb") as file:
        return file.read(8).startswith(_STARTS)


def image_at(path: Path) -> ImageDescription:
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
    text = settings if isinstance(settings, str) else ""
    return ImageDescription(path.name, "picture", width, height, text[:_SETTINGS_LIMIT])


def _run(run: RunFolder, path: Path, *, kind: str, checkpoint: str) -> RunDescription:
    document = read_json(run.config)
    steps = value_at(document, "training.steps")
    run_summary = summary(run)
    checkpoints = {found.name: number for number, found in run.complete_checkpoints()}
    files = sorted(run.output.iterdir()) if run.output.is_dir() else []
    # Models for other programs: single files and diffusers folders.
    outputs = [f for f in files if f.suffix == ".safetensors" or (f / "model_index.json").is_file()]
    return RunDescription(
        name=path.name or str(path),
        kind=kind,
        run=run.name,
        standing=run_summary.standing,
        step=checkpoints.get(checkpoint, 0) if checkpoint else run_summary.step,
        steps=run_summary.total_steps or (steps if isinstance(steps, int) else 0),
        trains=_trains(document),
        outputs=tuple(f"output/{file.name}" for file in outputs),
        checkpoints=tuple(checkpoints.values()),
    )


def _trains(document: Mapping[str, Any]) -> str:
    """Describe what a run trains, for example "a LoRA of rank 16 for SDXL, on base.safetensors"."""
    method = str(value_at(document, "method.kind") or "lora")
    rank = value_at(document, "method.rank")
    family = str(value_at(document, "model.family") or "")
    base = str(value_at(document, "model.path") or "")
    text = _METHODS.get(method, method) + (f" of rank {rank}" if rank is not None else "")
    text += f" for {FAMILY_LABELS.get(family, family)}" if family else ""
    return text + (f", on {base if is_hub_name(base) else Path(base).name}" if base else "")
