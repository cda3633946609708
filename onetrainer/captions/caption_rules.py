"""What is wrong with settings of captions, before anything is drawn by them."""

import difflib
from collections.abc import Iterator

from onetrainer.captions.choices import BraceError, all_choices, parse_choices
from onetrainer.captions.patterns import pattern_errors
from onetrainer.captions.tags import tag_separator
from onetrainer.config.data.captions import Captions
from onetrainer.errors import Fix, Problem

FIELDS = ("caption", "name", "folder", "concept")
"""What a template knows, in braces."""

_MOST_TOLD = 5
_SHOWN = 60  # characters


def caption_problems(captions: Captions, path: str) -> list[Problem]:
    """What forbids drawing captions, and what is unusual. path: of the section, dotted."""
    found = [*_template_problems(captions, path), *_mark_problems(captions, path)]
    if captions.drop_tags != "off":
        found += _list_problems(captions, path)
    if captions.dropout == 1:
        found.append(
            Problem(
                f"{path}.dropout",
                "every caption is replaced by the empty prompt",
                "Usual is 0.05 to 0.15",
                "Lower it, unless nothing is to be learnt of captions.",
                severity="warning",
            )
        )
    return found


def _template_problems(captions: Captions, path: str) -> Iterator[Problem]:
    template = captions.template
    if not template.strip():
        return
    place, shown = f"{path}.template", _cut(template)
    try:
        found = all_choices(parse_choices(template))
    except BraceError as error:
        yield Problem(
            place,
            f'"{shown}" has {error}',
            "Expected braces in pairs, such as {caption}",
            "Correct it; {{ and }} are the braces themselves.",
        )
        return
    if not any(one.field == "caption" for one in found):
        yield Problem(
            place,
            f'"{shown}" leaves captions out',
            "Expected {caption} where the caption is to stand",
            "Add it.",
        )
    known = ", ".join(f"{{{field}}}" for field in FIELDS)
    for one in found:
        if len(one.options) > 1 and not captions.wildcards:
            yield Problem(
                place,
                f'"{shown}" chooses between words',
                "That needs wildcards",
                "Turn them on; {{ and }} are the braces themselves.",
                fix=Fix(f"{path}.wildcards", True),
            )
            return
        if len(one.options) == 1 and one.field not in FIELDS:
            near = difflib.get_close_matches(one.field.lower(), FIELDS, n=1)
            remedy = f"Did you mean {{{near[0]}}}?" if near else "Correct it, or take it out."
            yield Problem(
                place, f'there is no "{{{_cut(one.field)}}}"', f"Expected one of {known}", remedy
            )


def _mark_problems(captions: Captions, path: str) -> Iterator[Problem]:
    separator = tag_separator(captions).strip()
    marks = {
        "secondary_separator": captions.secondary_separator,
        "keep_separator": captions.keep_separator,
    }
    for name, mark in marks.items():
        place, clean = f"{path}.{name}", mark.strip()
        if not mark:
            continue
        if not clean or clean != " ".join(clean.split()):
            yield Problem(
                place,
                "blanks cannot be told from those between words",
                'Expected signs that captions have nowhere else, such as ";;;"',
                "Write some, or leave it empty.",
            )
        elif separator and separator in clean:
            yield Problem(
                place,
                f'"{clean}" holds "{separator}", at which tags are split already',
                'Expected other signs, such as ";;;" or "|||"',
                "Choose others.",
            )
    first, second = (mark.strip() for mark in marks.values())
    if first and second and (first in second or second in first):
        yield Problem(
            f"{path}.keep_separator",
            f'"{second}" and "{first}", which keeps tags together, cannot be told apart',
            "Expected two marks of which neither holds the other",
            "Choose another one.",
        )


def _list_problems(captions: Captions, path: str) -> Iterator[Problem]:
    if captions.drop_listed == "none":
        return
    place = f"{path}.listed_tags"
    lines = [line.strip() for line in captions.listed_tags.splitlines() if line.strip()]
    if not lines:
        effect = "no tag is dropped" if captions.drop_listed == "drop" else "it keeps no tag"
        yield Problem(
            place, f"the list is empty, so {effect}", "", "Write a tag a line.", severity="warning"
        )
    if not captions.listed_regex:
        mark = tag_separator(captions)
        if joined := [line for line in lines if mark in line]:
            yield Problem(
                place,
                f'no tag is "{_cut(joined[0])}", since tags are split at "{mark}"',
                "Expected one tag a line",
                "Write each on a line of its own.",
                severity="warning",
            )
        return
    faults = list(pattern_errors(captions.listed_tags))
    for number, pattern, fault in faults[:_MOST_TOLD]:
        yield Problem(
            place,
            f'line {number}: "{_cut(pattern)}" cannot be used: {fault}',
            "Expected a regular expression",
            "Correct it, or turn off patterns to take lines as they are.",
        )
    if len(faults) > _MOST_TOLD:
        more = f"{len(faults) - _MOST_TOLD} more lines cannot be used"
        yield Problem(place, more, "", "Correct them too.")


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
