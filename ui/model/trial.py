"""What is to be generated to try a model, from what a person typed. No Tk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.files.inside import is_inside
from onetrainer.files.lines import split_lines
from onetrainer.jobs.sample_request import AXIS_LABELS, AxisName, SampledLora, SampleRequest
from onetrainer.jobs.sample_table import requests_of
from onetrainer.json_file import read_json
from onetrainer.presets.presets import value_at
from onetrainer.run.run_folder import RunFolder
from onetrainer.run.steps import available_steps
from ui.model.draft import Draft
from ui.model.labeled_request import labeled_request

MOST_IMAGES = 64
_OF_LORAS = ("strength", "lora", "step")
_USUAL: Mapping[str, str] = {
    "steps": "10, 20, 30",
    "guidance": "3, 5, 7, 9",
    "sampler": "DDIM, Euler, DPM++ 2M Karras",
    "strength": "0, 0.5, 1",
}
_FROM_MODEL = ("vae", "clip_skip", "prediction", "zero_terminal_snr", "circular_padding", "offline")


@dataclass(frozen=True)
class TrialLora:
    """A LoRA's file, or a run with its step, and the strength as it was typed."""

    path: str
    strength: str = "1"
    step: int | None = None

    @property
    def name(self) -> str:
        """What people call it."""
        return SampledLora(path=self.path, step=self.step).name

    @property
    def run(self) -> RunFolder | None:
        """The run, if it is one."""
        return SampledLora(path=self.path).run


@dataclass(frozen=True)
class TrialAxis:
    """What differs along a side of a grid, and the values as they were typed.

    lora: Which LoRA of the list it is about, from 1.
    """

    of: AxisName
    values: str
    lora: int = 1


def trial_request(
    draft: Draft,
    typed: Mapping[str, str],
    loras: Sequence[TrialLora],
    *,
    x: TrialAxis | None = None,
    y: TrialAxis | None = None,
) -> SampleRequest:
    """Return the request for images of the draft's base model.

    Args:
        draft: Its model section is used, and where its runs are.
        typed: Values by the names of the request's fields, and "count": so many seeds from "seed"
            on.
        loras: Added to the model.
        x: What differs from column to column; None for nothing.
        y: The same from row to row.

    Raises:
        UserError: If a value is not allowed; it names the field by its label.
    """
    if not draft.value("model.path"):
        raise UserError("There is no base model yet", "", "Choose one on the page Model.")
    lines = [line.strip() for line in split_lines(typed["prompt"]) if line.strip()]
    if not lines:
        raise UserError("There is no prompt", "Expected what the image should show", "Write one.")
    axes = {axis.of for axis in (x, y) if axis is not None}
    seed, count = (_whole(typed[name], label) for name, label in (("seed", "Seed"), _COUNT))
    if not 1 <= count <= MOST_IMAGES:
        raise UserError(f"Images: {count}", f"Expected 1 to {MOST_IMAGES}", "Correct the number.")
    values: dict[str, object] = {
        "base": draft.value("model.path"),
        "family": draft.value("model.family"),
        "prompts": lines[:1] if "prompt" in axes else [" ".join(lines)],
        "negative": typed["negative"],
        "seeds": [seed] if "seed" in axes else range(seed, seed + count),
        "loras": [
            {
                "path": lora.path,
                "strength": _number(lora.strength, "Strength"),
                "step": lora.step,
            }
            for lora in loras
        ],
        "x": _axis(x, lines, loras),
        "y": _axis(y, lines, loras),
        "device": draft.value("hardware.device"),
        "out": str(trial_folder(draft)),
        **{name: typed[name] for name in ("width", "height", "steps", "guidance", "sampler")},
        **{name: draft.value(f"model.{name}") for name in _FROM_MODEL},
    }
    request = labeled_request(SampleRequest, values)
    requests_of(request)
    return request


def axis_choices(loras: Sequence[TrialLora]) -> dict[str, tuple[AxisName, int]]:
    """Return what a grid can vary, by its label: the setting, and the number of its LoRA."""
    choices: dict[str, tuple[AxisName, int]] = {
        label: (name, 1) for name, label in AXIS_LABELS.items() if name not in _OF_LORAS
    }
    for number, lora in enumerate(loras, start=1):
        of = f" of {lora.name}" if len(loras) > 1 else ""
        choices[f"{AXIS_LABELS['strength']}{of}"] = ("strength", number)
        choices[AXIS_LABELS["lora"] + of.replace(" of", " in place of")] = ("lora", number)
        if lora.run is not None:
            choices[f"{AXIS_LABELS['step']}{of.replace(' of', '')}"] = ("step", number)
    return choices


def usual_values(of: AxisName, lora: TrialLora | None, typed: Mapping[str, str]) -> str:
    """Return values that a grid may begin with, as a person would type them."""
    match of:
        case "step" if lora is not None and lora.run is not None:
            return ", ".join(map(str, available_steps(lora.run)[-8:]))
        case "lora" if lora is not None and lora.run is None:
            files = sorted(Path(lora.path).parent.glob("*.safetensors"))[:8]
            return " | ".join(file.name for file in files)
        case "seed" if typed["seed"].isdecimal():
            return f"{typed['seed']}-{int(typed['seed']) + 3}"
        case "size":
            return f"{typed['width']}x{typed['height']}, {typed['height']}x{typed['width']}"
    return _USUAL.get(of, "")


def _axis(
    axis: TrialAxis | None, lines: Sequence[str], loras: Sequence[TrialLora]
) -> dict[str, object] | None:
    if axis is None:
        return None
    sign = "|" if "|" in axis.values else ","
    values = [value.strip() for value in axis.values.split(sign) if value.strip()]
    if axis.of == "prompt":
        values = [*lines]
    if axis.of == "lora" and len(loras) >= axis.lora:
        folder = Path(loras[axis.lora - 1].path).parent
        values = [str(folder / value) for value in values]
    if not values:
        raise UserError(
            f"{AXIS_LABELS[axis.of]}: the grid has no values for it",
            "Expected some, with commas between them, or | where they contain commas",
            "Write them, or choose another setting.",
        )
    return {"of": axis.of, "values": values, "lora": axis.lora}


def trial_folder(draft: Draft) -> Path:
    """Return the folder of images that are generated to try a model: beside the runs."""
    runs = Path(str(draft.value("output.folder") or "runs")).expanduser().absolute()
    return runs.parent / "tried"


def usual_prompt(lora: Path) -> str:
    """Return the first sample prompt, or the trigger words, of the run that a LoRA's file is of.

    "" for a file that is not in the output folder of a run, and for a run that has neither.
    """
    run = RunFolder(lora.parent.parent)
    if lora.absolute().parent != run.output or not is_inside(run.config):
        return ""
    try:
        config = read_json(run.config)
    except UserError:
        return ""
    prompts = value_at(config, "sampling.prompts") or ()
    found = [each.get("prompt", "") for each in prompts if each.get("use", True)]
    return next((text for text in (*found, value_at(config, "data.trigger")) if text), "")


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
