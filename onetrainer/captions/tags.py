"""Captions that are lists of tags: split, drop, shuffle, capitalize, join."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from onetrainer.captions.patterns import is_listed
from onetrainer.config.data.captions import Captions
from onetrainer.seeds import derive, draws, shuffled

Tag: TypeAlias = tuple[str, ...]
"""One tag, or several that stay together."""

_LETTERS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_ANY = ("upper", "title", "first", "random")


@dataclass(frozen=True)
class Tags:
    """The tags of a caption; only those in the middle may be shuffled and dropped."""

    first: tuple[Tag, ...]
    middle: tuple[Tag, ...]
    last: tuple[Tag, ...] = ()

    def map(self, change: Callable[[str], str]) -> "Tags":
        """Return the tags with a function applied to each; of several together, to each alone."""
        parts = (self.first, self.middle, self.last)
        return Tags(*(tuple(tuple(map(change, tag)) for tag in part) for part in parts))


def changes_tags(captions: Captions, text: str) -> bool:
    """Return whether a caption must be split into tags; otherwise it stays as written."""
    marks = (captions.keep_separator.strip(), captions.secondary_separator.strip())
    is_changed = captions.shuffle or captions.drop_tags != "off" or captions.capitals != "off"
    return is_changed or any(mark and mark in text for mark in marks)


def split_tags(text: str, captions: Captions) -> Tags:
    """Return the tags of a caption without separators and empty tags.

    Tags before the keep separator, and after a second one, stay in place; without it, as many as
    "keep" says at the front.
    """
    mark = captions.keep_separator.strip()
    if mark and mark in text:
        first, rest = text.split(mark, 1)
        middle, _, last = rest.partition(mark)
        # Further separators are removed.
        last = last.replace(mark, joining_separator(captions))
        return Tags(*(_tags(part, captions) for part in (first, middle, last)))
    tags = _tags(text, captions)
    return Tags(tags[: captions.keep], tags[captions.keep :])


def drop_random_tags(tags: Tags, captions: Captions, seed: int, repeat: int, name: str) -> Tags:
    """Return the tags without those dropped in this repeat.

    With "all" they share one random number; with "each" every tag has its own with the same
    probability; with "later" the k-th of n droppable tags has k/n of the probability.
    """
    if captions.drop_tags == "off":
        return tags
    numbers = draws(seed, "caption tags", repeat, name)
    shared = numbers.random()
    individual = [numbers.random() for _ in tags.middle]
    may_drop = [_may_drop(tag, captions) for tag in tags.middle]
    count, position, remaining = sum(may_drop), 0, []
    for tag, is_dropped, number in zip(tags.middle, may_drop, individual, strict=True):
        position += is_dropped
        chance = captions.drop_chance
        if captions.drop_tags == "all":
            number = shared
        elif captions.drop_tags == "later" and is_dropped:
            chance *= position / count
        if not (is_dropped and number < chance):
            remaining.append(tag)
    return Tags(tags.first, tuple(remaining), tags.last)


def shuffle_tags(tags: Tags, captions: Captions, seed: int, repeat: int, name: str) -> Tags:
    """Return the tags in the order of this repeat."""
    if not captions.shuffle:
        return tags
    order = shuffled(tags.middle, derive(seed, "caption order", repeat, name))
    return Tags(tags.first, tuple(order), tags.last)


def capitalize_tags(tags: Tags, captions: Captions, seed: int, repeat: int, name: str) -> Tags:
    """Return the tags with the capitals of this repeat; of several together each is one tag."""
    if captions.capitals == "off":
        return tags
    numbers = draws(seed, "caption capitals", repeat, name)
    return tags.map(lambda tag: _capitals(tag, captions, numbers))


def join_tags(tags: Tags, captions: Captions) -> str:
    """Return the tags as text with the separator between any two, also those that stay together."""
    return joining_separator(captions).join(
        part for tag in (*tags.first, *tags.middle, *tags.last) for part in tag
    )


def tag_separator(captions: Captions) -> str:
    """Return the text at which tags are split; " " if the separator is only spaces.

    Spaces around punctuation such as "," are ignored; around a word such as " and " they are kept,
    as otherwise "sandals" would be split.
    """
    separator = " ".join(captions.separator.split())
    if any(letter.isalnum() for letter in separator):
        before, after = captions.separator[0].isspace(), captions.separator[-1].isspace()
        return " " * before + separator + " " * after
    return separator or " "


def joining_separator(captions: Captions) -> str:
    """Return the text that is written between two tags."""
    separator = tag_separator(captions)
    return separator if separator != separator.strip() else f"{separator} "


def _tags(text: str, captions: Captions) -> tuple[Tag, ...]:
    shared = captions.secondary_separator.strip()
    tags = []
    for piece in text.split(tag_separator(captions)):
        parts = piece.split(shared) if shared else [piece]
        if tag := tuple(clean for part in parts if (clean := " ".join(part.split()))):
            tags.append(tag)
    return tuple(tags)


def _may_drop(tag: Tag, captions: Captions) -> bool:
    """Return whether a tag may be dropped; of several together, each must be droppable."""
    if captions.drop_listed == "none":
        return True
    listed = (is_listed(part, captions.listed_tags, patterns=captions.listed_regex) for part in tag)
    return all(listed) if captions.drop_listed == "drop" else not any(listed)


def _capitals(tag: str, captions: Captions, numbers: random.Random) -> str:
    is_written, which = numbers.random() < captions.capitals_chance, numbers.random()
    if not is_written:
        return tag
    is_any = captions.capitals == "any"
    mode = _ANY[int(which * len(_ANY))] if is_any else captions.capitals
    if mode == "upper":
        return tag.upper()
    if mode == "random":
        return "".join(letter.upper() if numbers.random() < 0.5 else letter for letter in tag)

    def first_upper(word: re.Match[str]) -> str:
        return word[0][0].upper() + word[0][1:]

    return _LETTERS.sub(first_upper, tag, count=1 if mode == "first" else 0)
