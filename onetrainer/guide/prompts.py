"""Sample prompts proposed from the first captions, which then show what was trained."""

from collections.abc import Iterable
from typing import Any

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.config.run.sampling import Prompt
from onetrainer.dataset.caption_sampling import plain_caption
from onetrainer.dataset.items import Item

_MOST = 3


def first_captioned(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return the first images with different captions."""
    found = dict[str, Item]()
    for item in items:
        if item.caption.strip():
            found.setdefault(item.caption.strip(), item)
        if len(found) == _MOST:
            break
    return tuple(found.values())


def prompts_of(captioned: Iterable[Item], concept: ConceptSettings, side: int) -> list[Any]:
    """Return prompts as configs have them: captions as they are trained, or the trigger words.

    side: Of the samples in pixels.
    """
    texts = [plain_caption(item, concept) for item in captioned]
    texts = [text for text in texts if text.strip()] or [concept.trigger.strip()]
    return [
        Prompt(prompt=text, seed=seed, width=side, height=side).model_dump(mode="json")
        for seed, text in enumerate(texts, start=1)
        if text
    ]
