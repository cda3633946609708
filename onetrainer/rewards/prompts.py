"""The prompts of reward training, split into training and validation prompts."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onetrainer.captions.prompt_file import MAX_TEXT, read_prompts
from onetrainer.concepts.concepts import concepts_of
from onetrainer.config.objectives.slider import Slider
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.files.lines import split_lines

PLACES = {
    "list": "objective.prompts.text",
    "file": "objective.prompts.file",
    "captions": "data.folder",
}
"""The setting of each source of prompts."""


@dataclass(frozen=True)
class PromptPlan:
    """How far a run that trains on prompts is after a number of steps.

    prompts: Number of training prompts. denoising_fraction: Of the steps, which train on images.
    """

    prompts: int
    images_per_step: int
    denoising_fraction: float

    def epoch_of(self, step: int) -> int:
        """Return the epoch of a step over the prompts, from 0."""
        reward_steps = step - int(step * self.denoising_fraction)
        return reward_steps * self.images_per_step // self.prompts

    def images_before_step(self, step: int) -> int:
        """Return the number of images generated or trained on before a step."""
        return step * self.images_per_step


def prompt_plan(config: TrainConfig) -> PromptPlan:
    """Return how far a run on prompts is after each step. Raises UserError as `prompts_of`."""
    section, images = config.objective, config.training.batch_size * config.training.accumulation
    if isinstance(section, Slider):
        return PromptPlan(len(section.labels), images, 0)
    assert isinstance(section, AlignProp)
    return PromptPlan(len(prompts_of(config).trained), images, section.keep.denoising_fraction)


@dataclass(frozen=True)
class PromptSplit:
    """Training and validation prompts. both: Validation prompts that are trained as well."""

    trained: tuple[str, ...]
    validation: tuple[str, ...]
    both: tuple[str, ...] = ()


def prompts_of(config: TrainConfig) -> PromptSplit:
    """Return the distinct prompts of a reward training config, in the order of their source.

    With a validation split, the choice of a prompt depends on its text and the seed alone. A single
    prompt is used for both. Raises UserError if there are no prompts, or one is too long.
    """
    section = config.objective
    assert isinstance(section, AlignProp)
    prompts = _once(_source(config, section))
    if not prompts:
        place = PLACES[section.prompts.source]
        raise UserError(
            f"{place}: there is no prompt",
            "Expected at least one line that describes an image",
            "Write some prompts, or choose another source (objective.prompts.source)",
        )
    evaluation = section.evaluation
    listed = _once(_lines(evaluation.prompts))
    _require_short(PLACES[section.prompts.source], prompts)
    _require_short("objective.evaluation.prompts", listed)
    if listed:
        both = tuple(prompt for prompt in listed if prompt in prompts)
        return PromptSplit(prompts, listed[: evaluation.max_prompts], both)
    count = min(
        max(1, round(evaluation.split * len(prompts))), len(prompts) // 2, evaluation.max_prompts
    )
    if count == 0 or evaluation.split == 0:
        return PromptSplit(prompts, prompts[: evaluation.max_prompts], prompts)

    def rank(prompt: str) -> bytes:
        # The text decides which prompts are split off: another word would move them.
        text = f"{config.training.seed}:held-out prompt:{prompt}"
        return hashlib.sha256(text.encode()).digest()

    validation = sorted(prompts, key=rank)[:count]
    return PromptSplit(
        tuple(prompt for prompt in prompts if prompt not in validation),
        tuple(prompt for prompt in prompts if prompt in validation),
    )


def _source(config: TrainConfig, section: AlignProp) -> Sequence[str]:
    match section.prompts.source:
        case "list":
            return _lines(section.prompts.text)
        case "file":
            return read_prompts(Path(section.prompts.file), place=PLACES["file"])
        case "captions":
            # Imported here since it loads Pillow, which a check of settings does not need.
            from onetrainer.dataset.caption_sampling import plain_caption
            from onetrainer.dataset.items import index_concept
            from onetrainer.images.image_index import recent_facts

            trained = [concept for concept in concepts_of(config) if concept.role == "train"]
            return [
                plain_caption(item, concept)
                for concept in trained
                for item in index_concept(concept, headers=recent_facts()).items
            ]


def _lines(text: str) -> list[str]:
    return [line for each in split_lines(text) if (line := each.strip())]


def _once(prompts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(prompt for prompt in prompts if prompt.strip()))


def _require_short(place: str, prompts: Sequence[str]) -> None:
    for prompt in prompts:
        if len(prompt) > MAX_TEXT:
            raise UserError(
                f"{place}: a prompt of {len(prompt):,} characters is not allowed here",
                f"Expected at most {MAX_TEXT:,}",
                "Shorten it",
            )
