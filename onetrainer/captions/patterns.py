"""Match tags with a list of tags or regular expressions; an expression that takes forever ends."""

import math
import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from onetrainer.captions.placeholder_tokens import token_key
from onetrainer.errors import UserError
from onetrainer.files.lines import split_lines

if TYPE_CHECKING:
    from regex import Pattern

MAX_TAG = 100
"""Longest tag in characters that patterns are matched with: longer ones are sentences."""

MAX_PATTERN = 300
MAX_COUNT = 100_000
"""Largest product of nested repeat counts such as {99}, which compiling expands."""

TIMEOUT_SECONDS = 1.0
_TRIAL_SECONDS = 0.1
ENDLESS = "it has too many possible matches and may take forever; use fewer of * + and |"

_LITERAL_BRACE = re.compile(r"(\\.)|\{(?!\d+,?\d*\}|,\d*\})", re.DOTALL)
_COUNT = re.compile(r"(\d+),?\}")


@lru_cache(100_000)  # tags are few, repeats are many
def is_listed(tag: str, listed: str, *, patterns: bool) -> bool:
    """Return whether a tag is in a list, one entry a line; case and repeated blanks are ignored.

    patterns: lines are regular expressions that must match the whole tag. Invalid ones match
    nothing; see `pattern_errors`. Raises UserError for one that takes too long.
    """
    if not patterns:
        return token_key(tag) in _listed_tags(listed)
    tag = " ".join(tag.split())
    return len(tag) <= MAX_TAG and any(_matches(one, tag) for one in _compiled_patterns(listed))


def pattern_errors(listed: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line number, pattern, reason) of each invalid pattern."""
    for number, line in enumerate(map(str.strip, split_lines(listed)), 1):
        if line and (reason := _pattern_error(line)):
            yield number, line, reason


@lru_cache(64)
def _listed_tags(listed: str) -> frozenset[str]:
    return frozenset(token_key(line) for line in split_lines(listed) if line.strip())


@lru_cache(64)
def _compiled_patterns(listed: str) -> "tuple[Pattern[str], ...]":
    lines = filter(None, map(str.strip, split_lines(listed)))
    return tuple(_compile(line) for line in lines if not _pattern_error(line))


def _compile(pattern: str) -> "Pattern[str]":
    """Compile a pattern of Python's own syntax by `regex`, whose matching can be timed out."""
    import regex  # here, as it takes as long to import as many settings together

    # After a character, regex reads {e} as "with errors".
    literal = _LITERAL_BRACE.sub(lambda found: found[1] or r"\{", pattern)
    return regex.compile(literal, regex.IGNORECASE | regex.VERSION0)


def _matches(pattern: "Pattern[str]", tag: str) -> bool:
    try:
        return pattern.fullmatch(tag, timeout=TIMEOUT_SECONDS) is not None
    except TimeoutError as error:
        raise UserError(
            f'the pattern "{pattern.pattern}" cannot be matched with the tag "{tag}": {ENDLESS}',
            "Expected a regular expression",
            "Correct it, or turn off patterns to match lines literally.",
        ) from error


@lru_cache(4096)
def _pattern_error(pattern: str) -> str:
    if len(pattern) > MAX_PATTERN:
        return f"it is longer than {MAX_PATTERN} characters"
    if math.prod(max(1, int(count)) for count in _COUNT.findall(pattern)) > MAX_COUNT:
        return "it is too large"
    try:
        with warnings.catch_warnings():
            # About characters that future versions of Python may interpret, such as "[[".
            warnings.simplefilter("ignore")
            re.compile(pattern, re.IGNORECASE)
        compiled = _compile(pattern)
    except (re.error, ValueError) as error:
        return f"it is not a valid regular expression ({error})"
    except (OverflowError, RecursionError):
        return "it is too large"
    letters = "".join(sorted(set(filter(str.isalnum, pattern))))
    for text in (*letters[:8], letters[:2], letters):
        # Something that it may repeat, and an end that does not fit.
        trial = (text * MAX_TAG)[: MAX_TAG - 1] + "\0"
        try:
            compiled.fullmatch(trial, timeout=_TRIAL_SECONDS)
        except TimeoutError:
            return ENDLESS
    return ""
