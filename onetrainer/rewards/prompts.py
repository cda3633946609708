"""The prompts of reward training: those that are drawn to learn, and those that are held out."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onetrainer.captions.prompt_file import MAX_TEXT, read_prompts
from onetrainer.concepts.concepts import concepts_of
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError

PLACES = {
    "list": "objective.prompts.text",
    "file": "objective.prompts.file",
    "captions": "data.folder",
}
"""The setting that each source of prompts is in."""


@dataclass(frozen=True)
class PromptSplit:
    """What is drawn to learn, and what is watched instead.

    both: held-out prompts that are learnt as well.
    """

    trained: tuple[str, ...]
    validation: tuple[str, ...]
    both: tuple[str, ...] = ()


def prompts_of(config: TrainConfig) -> PromptSplit:
    """The prompts of a config of reward training, each once, in the order of their source.

    Of a share, a prompt's turn to be held out comes from its words and the seed alone. A single
    prompt is both learnt and watched. Raises UserError where there are none, or one is too long.
    """
    section = config.objective
    assert isinstance(section, AlignProp)
    found = _once(_source(config, section))
    if not found:
        place = PLACES[section.prompts.source]
        raise UserError(
            f"{place}: there is no prompt",
            "Expected at least one line that says what a picture is to show",
            "Write some prompts, or choose another source of them (objective.prompts.source)",
        )
    watched = section.evaluation
    written = _once(_lines(watched.prompts))
    _refuse_long(PLACES[section.prompts.source], found)
    _refuse_long("objective.evaluation.prompts", written)
    if written:
        both = tuple(prompt for prompt in written if prompt in found)
        return PromptSplit(found, written[: watched.max_prompts], both)
    count = min(max(1, round(watched.split * len(found))), len(found) // 2, watched.max_prompts)
    if count == 0 or watched.split == 0:
        return PromptSplit(found, found[: watched.max_prompts], found)
    held = sorted(found, key=lambda prompt: _turn(prompt, config.training.seed))[:count]
    return PromptSplit(
        tuple(prompt for prompt in found if prompt not in held),
        tuple(prompt for prompt in found if prompt in held),
    )


def _source(config: TrainConfig, section: AlignProp) -> Sequence[str]:
    match section.prompts.source:
        case "list":
            return _lines(section.prompts.text)
        case "file":
            return read_prompts(Path(section.prompts.file), place=PLACES["file"])
        case "captions":
            # Here, since it loads Pillow, which a check of settings does without.
            from onetrainer.dataset.caption_sampling import plain_caption
            from onetrainer.dataset.items import index_concept
            from onetrainer.images.header import recent_headers

            trained = [concept for concept in concepts_of(config) if concept.role == "train"]
            return [
                plain_caption(item, concept)
                for concept in trained
                for item in index_concept(concept, headers=recent_headers()).items
            ]


def _lines(text: str) -> list[str]:
    return [line for each in text.splitlines() if (line := each.strip())]


def _once(prompts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(prompt for prompt in prompts if prompt.strip()))


def _turn(prompt: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:held-out prompt:{prompt}".encode()).digest()


def _refuse_long(place: str, prompts: Sequence[str]) -> None:
    for prompt in prompts:
        if len(prompt) > MAX_TEXT:
            raise UserError(
                f"{place}: a prompt of {len(prompt):,} characters is not allowed here",
                f"Expected at most {MAX_TEXT:,}",
                "Shorten it",
            )
