"""Sample the caption of an image from (seed, image, repeat).

In this order:

1. **Dropout**: with its probability the caption is the empty prompt, without trigger words.
2. **Caption**: if an image has several, each is used once in as many repeats, in an order
   shuffled each time, so that all are used equally often.
3. **Wildcards** within it, {red|green}, are resolved in the same way: each option once, in
   shuffled orders, over the uses of this caption.
4. **Trigger words** are prepended unless the caption begins with them. They, and what stands in
   one tag with them, are never shuffled, dropped or changed in letter case.
5. **Tags** are lowercased, dropped at random, shuffled, capitalized and joined: marks are removed
   and the separator replaces the secondary one. A caption that none of this changes stays as
   written.
6. **Template**: the result is inserted into it and its own wildcards are resolved. Its words are
   not tags, so they stay in place.

Each random choice has a seed purpose of its own, so that enabling one leaves the others unchanged.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from onetrainer.captions.caption_rules import FIELDS
from onetrainer.captions.choices import (
    BraceError,
    Choice,
    Order,
    Text,
    all_choices,
    choose_options,
    parse_choices,
    written_order,
)
from onetrainer.captions.tags import (
    Tags,
    capitalize_tags,
    changes_tags,
    drop_random_tags,
    join_tags,
    joining_separator,
    shuffle_tags,
    split_tags,
    tag_separator,
)
from onetrainer.concepts.concepts import ConceptSettings, folder_name
from onetrainer.config.data.captions import Captions
from onetrainer.dataset.items import Item
from onetrainer.seeds import derive, draws, shuffled

_REMEMBERED = 4096
"""Images of which the caption is remembered, some hundred bytes each."""


class CaptionSampler:
    """Samples captions of a dataset's images; those that dropout alone changes are composed once.

    concepts: Those of the dataset.
    """

    def __init__(self, concepts: Sequence[ConceptSettings]) -> None:
        self._concepts = concepts
        self._constant: dict[tuple[int, Path], str | None] = {}

    def __call__(self, item: Item, repeat: int) -> str:
        """Return what `sample_caption` does."""
        concept, key = self._concepts[item.concept], (item.concept, item.path)
        if key not in self._constant and len(self._constant) < _REMEMBERED:
            text = None if _text_varies(item, concept) else _composed(item, concept, repeat)
            self._constant[key] = text
        text = self._constant.get(key)
        if text is None:
            return sample_caption(item, concept, repeat)
        return "" if _is_dropped(item, concept, repeat) else text


def sample_caption(item: Item, concept: ConceptSettings, repeat: int) -> str:
    """Return the caption of one repeat of an image; "" for the empty prompt."""
    return "" if _is_dropped(item, concept, repeat) else _composed(item, concept, repeat)


def _composed(item: Item, concept: ConceptSettings, repeat: int) -> str:
    """Return the caption of a repeat that is not dropped."""
    captions = concept.captions
    count = len(item.captions)
    round_, number = repeat, 0
    if count > 1:
        round_, at = divmod(repeat, count)
        number = shuffled(range(count), derive(concept.seed, "caption round", round_, item.name))[
            at
        ]
    caption = item.captions[number]
    if captions.wildcards:
        orders = _shuffled_orders(concept.seed, f"{number}:{item.name}")
        caption = choose_options(_parsed_or_as_is(caption), round_, orders)

    def arranged(tags: Tags) -> Tags:
        for change in (drop_random_tags, shuffle_tags, capitalize_tags):
            tags = change(tags, captions, concept.seed, repeat, item.name)
        return tags

    text = _prepend_trigger(caption, concept, arranged)
    orders = _shuffled_orders(concept.seed, f"template:{item.name}")
    return _fill_template(text, item, concept, repeat, orders)


def _is_dropped(item: Item, concept: ConceptSettings, repeat: int) -> bool:
    if not concept.captions.dropout:
        return False
    number = draws(concept.seed, "caption dropout", repeat, item.name).random()
    return number < concept.captions.dropout


def plain_caption(item: Item, concept: ConceptSettings) -> str:
    """Return the first caption without random choices: with trigger, template, first wildcards."""
    caption = item.captions[0]
    if concept.captions.wildcards:
        caption = choose_options(_parsed_or_as_is(caption), 0, written_order)
    text = _prepend_trigger(caption, concept, lambda tags: tags)
    return _fill_template(text, item, concept, 0, written_order)


def captions_vary(captions: Captions) -> bool:
    """Return whether a caption may have variants other than itself and the empty prompt.

    Dropout and several captions of one image do not count: those are known in advance.
    """
    drop, capitals = captions.drop_chance, captions.capitals_chance
    is_cut = (
        captions.drop_tags != "off" and drop > 0 and (captions.drop_tags == "later" or drop < 1)
    )
    is_random = captions.capitals in ("random", "any")  # even if all tags are capitalized
    is_written = captions.capitals != "off" and capitals > 0 and (is_random or capitals < 1)
    return captions.wildcards or captions.shuffle or is_cut or is_written


def item_captions_vary(item: Item, concept: ConceptSettings) -> bool:
    """Return whether an image may have different captions in different repeats."""
    captions = concept.captions
    if 0 < captions.dropout < 1:
        return True
    return captions.dropout < 1 and _text_varies(item, concept)


def _text_varies(item: Item, concept: ConceptSettings) -> bool:
    """Return whether captions that are not dropped may differ."""
    captions = concept.captions
    if len(set(item.captions)) > 1 or captions_vary(
        captions.model_copy(update={"wildcards": False})
    ):
        return True
    texts = [*map(_parsed_or_as_is, item.captions), _parsed_template(captions.template) or ()]
    found = [one for text in texts for one in all_choices(text)]
    return captions.wildcards and any(len(one.options) > 1 for one in found)


def _parsed_or_as_is(text: str) -> Text:
    try:
        return parse_choices(text)
    except BraceError:
        return (text,)  # used as it is; see docs/captions.md


def _shuffled_orders(seed: int, name: str) -> Order:
    """Return the shuffled order of each wildcard in each round, seeded by the text's name."""

    def order(choice: Choice, round_: int) -> list[int]:
        number = derive(seed, "caption choice", round_, choice.place, name)
        return shuffled(range(len(choice.options)), number)

    return order


def _prepend_trigger(
    caption: str, concept: ConceptSettings, arranged: Callable[[Tags], Tags]
) -> str:
    """Return the caption with its tags rearranged, and the trigger words before them.

    What stands in one tag with them, as in "ohwx man, hat", stays with them.
    """
    captions = concept.captions
    trigger, rest = _split_at_trigger(" ".join(caption.split()), concept)
    if not changes_tags(captions, rest):
        return trigger + (rest.lower() if captions.lowercase else rest)
    marks = (tag_separator(captions), captions.keep_separator.strip())
    ends = [at for mark in marks if mark and (at := rest.find(mark)) >= 0] if trigger else [0]
    end = min(ends, default=len(rest))
    same_tag, rest = rest[:end], rest[end:]
    if secondary := captions.secondary_separator.strip():
        same_tag = same_tag.replace(secondary, joining_separator(captions))
    tags = split_tags(rest, captions)
    if captions.lowercase:
        tags, same_tag = tags.map(str.lower), same_tag.lower()
    text = join_tags(arranged(tags), captions)
    head = " ".join((trigger + same_tag).split())
    return joining_separator(captions).join(part for part in (head, text) if part)


def _split_at_trigger(caption: str, concept: ConceptSettings) -> tuple[str, str]:
    """Return the fixed beginning of a caption, and the rest with the separator between them."""
    mark = tag_separator(concept.captions)
    tags = [" ".join(tag.split()) for tag in concept.trigger.split(mark)]
    tags = [tag for tag in tags if tag]
    if not tags:
        return "", caption
    if found := _trigger_pattern(tuple(tags), mark).match(caption):
        return found[0], caption[found.end() :]
    trigger = joining_separator(concept.captions).join(tags)
    return trigger, joining_separator(concept.captions) + caption if caption else ""


@lru_cache(1024)
def _trigger_pattern(tags: tuple[str, ...], mark: str) -> re.Pattern[str]:
    """Return a pattern for tags at the beginning of a text, as whole words in any letter case."""
    spelled = (r"\s+".join(re.escape(word) for word in tag.split()) for tag in tags)
    spelling = rf"\s*{re.escape(mark.strip())}\s*".join(spelled) if mark.strip() else ""
    spelling = spelling or r"\s+".join(re.escape(tag) for tag in tags)
    end = r"(?!\w)" if tags[-1][-1].isalnum() else ""
    return re.compile(spelling + end, re.IGNORECASE)


@lru_cache(256)
def _parsed_template(template: str) -> Text | None:
    """Return the parsed template; None if it is empty or invalid."""
    try:
        found = parse_choices(template)
    except BraceError:
        return None
    return found if any(one.field == "caption" for one in all_choices(found)) else None


def _fill_template(
    text: str, item: Item, concept: ConceptSettings, repeat: int, order: Order
) -> str:
    template = _parsed_template(concept.captions.template)
    if template is None:
        return " ".join(text.split())
    names = (item.path.stem, folder_name(item.path.parent), concept.name)
    composed = (unicodedata.normalize("NFC", name) for name in names)
    fields = dict(zip(FIELDS, (text, *composed), strict=True))
    if not concept.captions.wildcards:
        repeat, order = 0, written_order
    written = " ".join(choose_options(template, repeat, order, fields).split())
    if text:
        return written
    # Without the separators that surrounded the missing caption.
    parts = (part.strip() for part in written.split(tag_separator(concept.captions)))
    return joining_separator(concept.captions).join(part for part in parts if part)
