"""What is told of a run's folder, of a checkpoint in it, and of a picture."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onetrainer.config.run.model import FAMILY_LABELS
from onetrainer.errors import UserError
from onetrainer.json_file import read_json
from onetrainer.model_files.hub import is_hub_name
from onetrainer.presets.presets import value_at
from onetrainer.run.history import summary
from onetrainer.run.run_folder import STATE_FILE, RunFolder

SETTINGS = "parameters"
"""Where a PNG has its settings, as AUTOMATIC1111's web UI writes them."""
_SETTINGS_LIMIT = 20_000  # characters
_STARTS = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"RIFF")  # WebP is one kind of RIFF
_METHODS: Mapping[str, str] = {
    "lora": "a LoRA",
    "dora": "a DoRA",
    "loha": "a LoHa",
    "lokr": "a LoKr",
    "oft": "an OFT",
    "full": "the model's own weights",
    "embedding": "words alone",
    "vae": "the decoder of the VAE",
}
# What a run keeps of itself in a checkpoint, to go on from.
_PARTS: Mapping[str, str] = {
    "weights.safetensors": "the weights",
    "optimizer.safetensors": "the optimizer's state",
    "ema.safetensors": "the averaged weights (EMA)",
}


@dataclass(frozen=True)
class Run:
    """A run's folder, or a checkpoint in it.

    kind: "run", "checkpoint" or "checkpoint file". steps: of all. outputs: finished files, within
    the folder. checkpoints: the steps that can be resumed from. trains: in words.
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
        """A line for each thing that there is to tell."""
        if self.kind != "run":
            part = f"{_PARTS[self.name]} of " if self.kind == "checkpoint file" else ""
            whose = f"{part}a checkpoint of the run {self.run}, after step {self.step}"
            return [
                f"{self.name}: {whose}",
                f"  Trains: {self.trains}",
                "  It is no model file: `onetrainer resume RUN_FOLDER` goes on from the newest one",
            ]
        newest = f", the newest after step {self.checkpoints[-1]}" if self.checkpoints else ""
        return [
            f"{self.name}: a run of this program (config.json + events.jsonl)",
            f"  Trains: {self.trains}",
            f"  State: {self.standing}, step {self.step} of {self.steps}",
            f"  Checkpoints: {len(self.checkpoints)}{newest}",
            f"  Files: {', '.join(self.outputs) or 'none in output/ yet'}",
        ]


@dataclass(frozen=True)
class Image:
    """A picture. settings: the text in it that tells how it was made, "" for none."""

    name: str
    kind: str
    width: int
    height: int
    settings: str

    def lines(self) -> list[str]:
        """Its size, and its settings as they stand in it."""
        settings = [f"  {line}" for line in self.settings.splitlines()]
        return [
            f"{self.name}: a picture of {self.width} × {self.height} pixels",
            *(settings or ["  It tells nothing of how it was made"]),
        ]


def run_at(path: Path) -> Run | None:
    """What a run's folder or a checkpoint tells; None if it is neither."""
    run = RunFolder(path)
    if run.config.is_file() and (run.events.is_file() or run.checkpoints.is_dir()):
        return _run(run, path, "run")
    return _of_checkpoint(path, path, "checkpoint")


def checkpoint_file_at(path: Path) -> Run | None:
    """What a file of a checkpoint tells; None for any other."""
    if path.name not in _PARTS:
        return None
    return _of_checkpoint(path.parent, path, "checkpoint file")


def _of_checkpoint(checkpoint: Path, path: Path, kind: str) -> Run | None:
    owner = RunFolder(checkpoint.absolute().parent.parent)
    if (checkpoint / STATE_FILE).is_file() and owner.config.is_file():
        return _run(owner, path, kind)
    return None


def is_image(path: Path) -> bool:
    """Whether a file begins as pictures do."""
    with path.open("rb") as file:
        return file.read(8).startswith(_STARTS)


def image_at(path: Path) -> Image:
    """A picture's size and settings. Raises UserError if it cannot be read."""
    from onetrainer.images.image_file import ImageError, open_image

    try:
        with path.open("rb") as file, open_image(file, path) as image:
            settings = image.info.get(SETTINGS, "")
            width, height = image.size
    except ImageError as error:
        raise UserError(
            f"{path.name}: this picture cannot be read ({error.reason})",
            remedy="Choose another file",
        ) from error
    text = settings if isinstance(settings, str) else ""
    return Image(path.name, "picture", width, height, text[:_SETTINGS_LIMIT])


def _run(run: RunFolder, path: Path, kind: str) -> Run:
    document = read_json(run.config)
    steps = value_at(document, "training.steps")
    stands = summary(run)
    step = stands.step
    if kind != "run":
        name = path.absolute().parent.name if kind == "checkpoint file" else path.absolute().name
        step = next((n for n, place in run.complete_checkpoints() if place.name == name), 0)
    files = sorted(run.output.iterdir()) if run.output.is_dir() else []
    return Run(
        name=path.name or str(path),
        kind=kind,
        run=run.name,
        standing=stands.standing,
        step=step,
        steps=stands.total_steps or (steps if isinstance(steps, int) else 0),
        trains=_trains(document),
        outputs=tuple(f"output/{file.name}" for file in files if _is_model(file)),
        checkpoints=tuple(number for number, _ in run.complete_checkpoints()),
    )


def _is_model(path: Path) -> bool:
    """Whether a finished file or folder is one that a run writes for other programs."""
    return path.suffix == ".safetensors" or (path / "model_index.json").is_file()


def _trains(document: Mapping[str, Any]) -> str:
    """For example "a LoRA of rank 16 for SDXL, on base.safetensors"."""
    method = str(value_at(document, "method.kind") or "lora")
    rank = value_at(document, "method.rank")
    family = str(value_at(document, "model.family") or "")
    base = str(value_at(document, "model.path") or "")
    words = _METHODS.get(method, method) + (f" of rank {rank}" if rank is not None else "")
    words += f" for {FAMILY_LABELS.get(family, family)}" if family else ""
    return words + (f", on {base if is_hub_name(base) else Path(base).name}" if base else "")
