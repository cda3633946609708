"""Captions of what a model found, as a person wants them."""

import re
from collections.abc import Mapping

from onetrainer.captioning.results import Result
from onetrainer.files.lines import split_lines
from onetrainer.jobs.caption_request import CaptionWriting, Existing

SEPARATOR = ", "
_WORD = re.compile(r"[^\W_]{2}")
"""What a tag has unless it is a face such as "^_^" or "u_u", whose underscore stays."""


def caption_text(result: Result, writing: CaptionWriting) -> str:
    """Return the caption of a result, in one line; "" if there is nothing to say."""
    if result.tags or result.characters or result.rating:
        text = SEPARATOR.join(_tags(result, writing))
    else:
        text = " ".join(result.text.split())
    prefix = " ".join(writing.prefix.split())
    if not prefix or text.casefold().startswith(prefix.casefold()):
        return text
    return joined(prefix, text)


def joined(first: str, second: str) -> str:
    """Return two texts as one; a sentence's end needs no comma."""
    if not first or not second:
        return first or second
    mark = "" if first.endswith((",", ".", "!", "?", ":", ";")) else ","
    return f"{first}{mark} {second}"


def beside_existing(text: str, existing: str, how: Existing) -> str:
    """Return what becomes of a caption that a person wrote; each line is a caption of its own."""
    match how:
        case "keep":
            return existing
        case "replace":
            return text
        case "before" | "after":
            lines = [line.strip() for line in split_lines(existing) if line.strip()]
            first = how == "before"
            return "\n".join(joined(text, own) if first else joined(own, text) for own in lines)


def _tags(result: Result, writing: CaptionWriting) -> list[str]:
    """Return the tags from the surest on: general ones, characters, the rating."""
    excluded = {_plain(tag) for tag in writing.exclude.split(",")}
    found = [
        *_above(result.tags, writing.threshold),
        *_above(result.characters, writing.character_threshold),
        *([result.rating] if writing.rating and result.rating else []),
    ]
    kept = [tag for tag in found if _plain(tag) not in excluded]
    return kept if writing.keep_underscores else [_spaced(tag) for tag in kept]


def _above(scores: Mapping[str, float], threshold: float) -> list[str]:
    return sorted(
        (t for t, score in scores.items() if score >= threshold), key=lambda t: -scores[t]
    )


def _spaced(tag: str) -> str:
    return tag.replace("_", " ") if _WORD.search(tag) else tag


def _plain(tag: str) -> str:
    return tag.strip().casefold().replace("_", " ")
