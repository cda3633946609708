"""The samples that a run generates each time: prompts with all settings, adapter by strength."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from onetrainer.captions.sample_prompt_file import read_sample_prompts
from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.run.sampling import Prompt, SamplerName, parse_strengths
from onetrainer.config.train import TrainConfig


@dataclass(frozen=True)
class Shot:
    """One sample of each time.

    Attributes:
        strength: Of the adapter that is trained; 1 for other methods.
        title: The prompt, and the strength if there are several.
    """

    prompt: Prompt
    steps: int
    guidance: float
    sampler: SamplerName
    strength: float
    title: str


def prompts_of_file(config: TrainConfig) -> list[Prompt]:
    """Return the prompts of the config's prompt file; raise UserError if it cannot be read."""
    if not config.sampling.file:
        return []
    side = config.data.resolution
    return [
        prompt.model_copy(update=dict.fromkeys({"width", "height"} - prompt.model_fields_set, side))
        for prompt in read_sample_prompts(Path(config.sampling.file), place="sampling.file")
    ]


def all_shots(config: TrainConfig) -> tuple[Shot, ...]:
    """Return the samples of the config's prompts and those of its file."""
    return shots_of(config, [*config.sampling.prompts, *prompts_of_file(config)])


def shots_of(config: TrainConfig, prompts: Iterable[Prompt]) -> tuple[Shot, ...]:
    """Return the samples of the prompts in use, those of one prompt in a row."""
    return tuple(shot for prompt in prompts if prompt.use for shot in _shots(config, prompt))


def _shots(config: TrainConfig, prompt: Prompt) -> list[Shot]:
    section = config.sampling
    has_adapter = isinstance(config.method, get_args(Adapter))
    chosen = parse_strengths(prompt.strengths) or parse_strengths(section.strengths)
    strengths = chosen if chosen and has_adapter else (1.0,)
    return [
        Shot(
            prompt,
            steps=section.steps if prompt.steps is None else prompt.steps,
            guidance=section.guidance if prompt.guidance is None else prompt.guidance,
            sampler=section.sampler if prompt.sampler == "run" else prompt.sampler,
            strength=strength,
            title=prompt.prompt + (f" (strength {strength:g})" if strengths != (1.0,) else ""),
        )
        for strength in strengths
    ]
