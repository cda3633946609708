"""Check the caption settings before captions are sampled."""

import difflib
from collections.abc import Iterator

from onetrainer.captions.choices import BraceError, all_choices, parse_choices
from onetrainer.captions.patterns import pattern_errors
from onetrainer.captions.tags import tag_separator
from onetrainer.config.data.captions import Captions
from onetrainer.errors import Fix, Problem, warning
from onetrainer.files.lines import split_lines

FIELDS = ("caption", "name", "folder", "concept")
"""Fields of a template, written in braces."""

_MAX_LISTED = 5
_SHOWN = 60  # characters


def caption_problems(captions: Captions, path: str) -> Iterator[Problem]:
    """Yield errors and warnings about a captions section, whose dotted path is `path`."""
    yield from _template_problems(captions, path)
    yield from _mark_problems(captions, path)
    if captions.drop_tags != "off" and captions.drop_listed != "none":
        yield from _list_problems(captions, path)
    if captions.dropout == 1:
        yield warning(
            f"{path}.dropout",
            "every caption is replaced by the empty prompt",
            "Usual values are 0.05 to 0.15",
            "Lower it, unless the captions should have no effect.",
        )


def _template_problems(captions: Captions, path: str) -> Iterator[Problem]:
    template = captions.template
    if not template.strip():
        return
    setting, shown = f"{path}.template", _cut(template)
    try:
        problems = all_choices(parse_choices(template))
    except BraceError as error:
        yield Problem(
            setting,
            f'"{shown}" has {error}',
            "Expected braces in pairs, such as {caption}",
            "Correct it; {{ and }} are literal braces.",
        )
        return
    if not any(one.field == "caption" for one in problems):
        yield Problem(
            setting,
            f'"{shown}" has no place for the caption',
            "Expected {caption} where the caption belongs",
            "Add it.",
        )
    known = ", ".join(f"{{{field}}}" for field in FIELDS)
    for one in problems:
        if len(one.options) > 1 and not captions.wildcards:
            yield Problem(
                setting,
                f'"{shown}" contains a wildcard',
                "Wildcards are turned off",
                "Turn them on; {{ and }} are literal braces.",
                fix=Fix(f"{path}.wildcards", True),
            )
            return
        if len(one.options) == 1 and one.field not in FIELDS:
            near = difflib.get_close_matches(one.field.lower(), FIELDS, n=1)
            remedy = f"Did you mean {{{near[0]}}}?" if near else "Correct or remove it."
            yield Problem(
                setting, f'there is no "{{{_cut(one.field)}}}"', f"Expected one of {known}", remedy
            )


def _mark_problems(captions: Captions, path: str) -> Iterator[Problem]:
    separator = tag_separator(captions).strip()
    marks = {
        "secondary_separator": captions.secondary_separator,
        "keep_separator": captions.keep_separator,
    }
    for name, mark in marks.items():
        setting, clean = f"{path}.{name}", mark.strip()
        if not mark:
            continue
        if not clean or clean != " ".join(clean.split()):
            yield Problem(
                setting,
                "spaces alone, or several in a row, cannot be found reliably in captions",
                'Expected characters that captions do not contain otherwise, such as ";;;"',
                "Enter some, or leave it empty.",
            )
        elif separator and separator in clean:
            yield Problem(
                setting,
                f'"{clean}" contains "{separator}", which separates tags already',
                'Expected other characters, such as ";;;" or "|||"',
                "Choose others.",
            )
    first, second = (mark.strip() for mark in marks.values())
    if first and second and (first in second or second in first):
        yield Problem(
            f"{path}.keep_separator",
            f'"{second}" and "{first}", which keeps tags together, overlap',
            "Expected two separators of which neither contains the other",
            "Choose another one.",
        )


def _list_problems(captions: Captions, path: str) -> Iterator[Problem]:
    setting = f"{path}.listed_tags"
    lines = [line.strip() for line in split_lines(captions.listed_tags) if line.strip()]
    if not lines:
        effect = "no tag is dropped" if captions.drop_listed == "drop" else "it keeps no tag"
        yield warning(setting, f"the list is empty, so {effect}", remedy="Enter one tag per line.")
    if not captions.listed_regex:
        mark = tag_separator(captions)
        if joined := [line for line in lines if mark in line]:
            yield warning(
                setting,
                f'"{_cut(joined[0])}" matches no tag, as tags are split at "{mark}"',
                "Expected one tag a line",
                "Write each on a line of its own.",
            )
        return
    faults = list(pattern_errors(captions.listed_tags))
    for number, pattern, fault in faults[:_MAX_LISTED]:
        yield Problem(
            setting,
            f'line {number}: "{_cut(pattern)}" cannot be used: {fault}',
            "Expected a regular expression",
            "Correct it, or turn off patterns to match lines literally.",
        )
    if len(faults) > _MAX_LISTED:
        more = f"{len(faults) - _MAX_LISTED} more lines cannot be used"
        yield Problem(setting, more, "", "Correct them too.")


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
