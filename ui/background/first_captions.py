"""The first captions of the images, as sample prompts. Safe in threads."""

from contextlib import suppress
from dataclasses import replace
from itertools import islice

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.errors import UserError

_MOST_PROMPTS, _MOST_CAPTIONS = 3, 1000


def first_captions(concept: ConceptSettings) -> tuple[str, ...]:
    """Return the first different captions with their trigger words, or these alone."""
    # Imported late to keep the start of the window fast.
    from onetrainer.dataset.caption_sampling import plain_caption
    from onetrainer.dataset.items import index_concept
    from onetrainer.images.image_index import recent_facts

    concept, found = replace(concept, require_captions=False), list[str]()
    with suppress(UserError):  # no usable image, which the setting reports as a problem
        items = index_concept(concept, headers=recent_facts()).items
        captioned = (item for item in items if any(text.strip() for text in item.captions))
        texts = (plain_caption(item, concept) for item in captioned)
        some = islice(filter(str.strip, texts), _MOST_CAPTIONS)
        found = list(islice(dict.fromkeys(some), _MOST_PROMPTS))
    trigger = concept.trigger.strip()
    return tuple(found) or ((trigger,) if trigger else ())
