"""What is to be generated to try a model, from what a person typed. No Tk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.jobs.sample_request import SampleRequest
from ui.model.draft import Draft
from ui.model.labeled_request import labeled_request

MOST_IMAGES = 64
_FROM_MODEL = ("vae", "clip_skip", "prediction", "zero_terminal_snr", "circular_padding", "offline")


@dataclass(frozen=True)
class TrialLora:
    """A LoRA's file, and its strength as it was typed."""

    path: str
    strength: str = "1"


def trial_request(
    draft: Draft, typed: Mapping[str, str], loras: Sequence[TrialLora], *, is_grid: bool
) -> SampleRequest:
    """Return the request for images of the draft's base model.

    Args:
        draft: Its model section is used, and where its runs are.
        typed: Values by the names of the request's fields, and "count": so many seeds from "seed"
            on.
        loras: Added to the model.
        is_grid: Each line is a prompt of its own, and a grid of prompts by seeds is written, too.

    Raises:
        UserError: If a value is not allowed; it names the field by its label.
    """
    if not draft.value("model.path"):
        raise UserError("There is no base model yet", "", "Choose one on the page Model.")
    lines = [line.strip() for line in typed["prompt"].splitlines() if line.strip()]
    prompts = lines if is_grid else [" ".join(lines)] if lines else []
    if not prompts:
        raise UserError("There is no prompt", "Expected what the image should show", "Write one.")
    seed, count = (_whole(typed[name], label) for name, label in (("seed", "Seed"), _COUNT))
    if not 1 <= count <= MOST_IMAGES:
        raise UserError(f"Images: {count}", f"Expected 1 to {MOST_IMAGES}", "Correct the number.")
    values: dict[str, object] = {
        "base": draft.value("model.path"),
        "family": draft.value("model.family"),
        "prompts": prompts,
        "negative": typed["negative"],
        "seeds": range(seed, seed + count),
        "loras": [
            {"path": lora.path, "strength": _number(lora.strength, "Strength")} for lora in loras
        ],
        "grid": is_grid,
        "out": str(trial_folder(draft)),
        **{name: typed[name] for name in ("width", "height", "steps", "guidance", "sampler")},
        **{name: draft.value(f"model.{name}") for name in _FROM_MODEL},
    }
    return labeled_request(SampleRequest, values)


def trial_folder(draft: Draft) -> Path:
    """Return the folder of images that are generated to try a model: beside the runs."""
    runs = Path(str(draft.value("output.folder") or "runs")).expanduser().absolute()
    return runs.parent / "tried"


_COUNT = ("count", "Images")


def _whole(text: str, label: str) -> int:
    if not text.strip().isdecimal():
        raise UserError(f"{label}: “{text}” is no whole number", "", "Correct it.")
    return int(text)


def _number(text: str, label: str) -> float:
    try:
        return float(text.replace(",", "."))
    except ValueError as error:
        raise UserError(f"{label}: “{text}” is no number", "Expected 1, 0.8 …") from error
