"""What is known of a sample: the settings in its file, and its rewards."""

from pathlib import Path
from typing import Any

from onetrainer.files.inside import open_inside
from onetrainer.files.own_json import NotOurs, parse_object
from onetrainer.images.image_file import ImageError, open_image
from onetrainer.run.events import Sample
from onetrainer.run.run_folder import RunFolder
from onetrainer.run.steps import available_steps
from ui.progress.rewards import Rewards, format_score, with_band

_OWN = "onetrainer"  # as `modules/sampling/image_files.py` embeds them
_A1111 = "parameters"


def sample_settings(path: Path) -> str:
    """Return the settings in a sample's file in a line; "" if it has none. Reads the file."""
    try:
        with open_inside(path) as file, open_image(file, path) as image:
            size, texts = image.size, dict(image.info)
    except (OSError, ImageError):
        return ""
    try:
        known = parse_object(str(texts.get(_OWN, "{}")))
    except NotOurs:  # another program's, or cut off
        known = {}
    parts = [f"{size[0]} × {size[1]}"]
    sampler = _sampler(str(texts.get(_A1111, "")))
    if sampler:
        parts.append(sampler)
    parts += [
        text.format(known[name])
        for name, text in (
            ("steps", "{} sampling steps"),
            ("guidance", "guidance {:g}"),
            ("guidance_rescale", "rescale {:g}"),
            ("clip_skip", "clip skip {}"),
            ("strength", "strength {:g}"),
        )
        if _is_number(known.get(name)) and known[name]
    ]
    negative = " ".join(str(known.get("negative") or "").split())
    return "  ·  ".join(parts) + (f"\nNegative: {negative}" if negative else "")


def sample_rewards(rewards: Rewards, sample: Sample) -> str:
    """Return the rewards of a sample's prompt at its step; "" if it was not evaluated there."""
    evaluation = rewards.at(sample.step)
    if evaluation is None:
        return ""
    for image in evaluation.images:
        if image.get("prompt") == sample.prompt and image.get("seed") == sample.seed:
            scores: dict[str, float] = image.get("rewards", {})
            named = [f"{name or 'all'} {format_score(score)}" for name, score in scores.items()]
            return "Rewards: " + "  ·  ".join(named)
    score = with_band(evaluation.reward, evaluation.error)
    return f"Reward of the validation prompts at this step: {score}"


def _sampler(parameters: str) -> str:
    """Return the sampler as other programs call it: "DPM++ 2M, Karras"."""
    found = [
        part.removeprefix(key)
        for part in parameters.replace("\n", ", ").split(", ")
        for key in ("Sampler: ", "Schedule type: ")
        if part.startswith(key)
    ]
    return ", ".join(found)


def _is_number(value: Any) -> bool:  # noqa: ANN401 # of JSON
    return isinstance(value, int | float) and not isinstance(value, bool)


def weights_note(folder: RunFolder, step: int, *, is_running: bool) -> str:
    """Return that the weights of a step are gone, and which are not; "" if they are there."""
    steps = available_steps(folder)
    if step == 0 or step in steps:
        return ""
    if not steps and not is_running:
        return "No weights of this run are kept."
    if not steps:
        return "No weights are kept yet: the first checkpoint is still to come."
    nearest = min(steps, key=lambda other: (abs(other - step), -other))
    return f"No weights of this step are kept; the nearest are those of step {nearest:,}."
