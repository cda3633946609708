"""Match tags with a list of tags or regular expressions, refusing expensive expressions."""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from onetrainer.captions.placeholder_tokens import token_key

MAX_TAG = 100
"""Longest tag in characters that patterns are matched with: longer ones are sentences."""

MAX_PATTERN = 300
MAX_WAYS = 2_000_000
"""Most ways in which a pattern may match a tag. Python tries them one by one, a few million a
second, and cannot be interrupted; ordinary patterns have some thousands.
"""

_TOKEN = re.compile(
    r"(?P<escape>\\.)"
    r"|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])"
    r"|(?P<open>\((?:\?(?:P?<\w+>|P=\w+|<?[=!]|[:>]|\(\w+\)|(?P<hidden>\#|[A-Za-z-]*x)"
    r"|[A-Za-z-]*:?))?)"
    r"|(?P<close>\))"
    r"|(?P<either>\|)"
    r"|(?P<repeat>(?:[*+?]|\{(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)(?<!\{)\})[?+]?)"
    r"|(?P<other>.)",
    re.DOTALL,
)


@lru_cache(100_000)  # tags are few, showings are many
def is_listed(tag: str, listed: str, *, patterns: bool) -> bool:
    """Return whether a tag is in a list, one entry a line; case and repeated blanks are ignored.

    patterns: lines are regular expressions that must match the whole tag. Invalid ones match
    nothing; see `pattern_errors`.
    """
    if not patterns:
        return token_key(tag) in _listed_tags(listed)
    tag = " ".join(tag.split())
    return len(tag) <= MAX_TAG and any(one.fullmatch(tag) for one in _compiled_patterns(listed))


def pattern_errors(listed: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line number, pattern, reason) of each invalid pattern."""
    for number, line in _lines(listed):
        if reason := _pattern_error(line):
            yield number, line, reason


def _lines(listed: str) -> list[tuple[int, str]]:
    lines = ((number, line.strip()) for number, line in enumerate(listed.splitlines(), 1))
    return [(number, line) for number, line in lines if line]


@lru_cache(64)
def _listed_tags(listed: str) -> frozenset[str]:
    return frozenset(token_key(line) for _, line in _lines(listed))


@lru_cache(64)
def _compiled_patterns(listed: str) -> tuple[re.Pattern[str], ...]:
    return tuple(_compile(line) for _, line in _lines(listed) if not _pattern_error(line))


def _compile(pattern: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        # About characters that future versions of Python may interpret, such as "[[".
        warnings.simplefilter("ignore")
        return re.compile(pattern, re.IGNORECASE)


@lru_cache(4096)
def _pattern_error(pattern: str) -> str:
    if len(pattern) > MAX_PATTERN:
        return f"it is longer than {MAX_PATTERN} characters"
    try:
        _compile(pattern)
    except re.error as error:
        return f"it is not a valid regular expression ({error})"
    except (OverflowError, RecursionError):
        return "it is too large"
    return _cost_error(pattern)


@dataclass
class _Group:
    """The state of a group while it is parsed.

    Attributes:
        ways: sum over the branches before this one.
        branch: product over this branch.
        before: that product without the last element.
        last: ways of the last element.
        was_simple: whether the last element is simple.
        is_simple: whether nothing in the group repeats, and it has one branch.
    """

    ways: int = 0
    branch: int = 1
    before: int = 1
    last: int = 1
    was_simple: bool = True
    is_simple: bool = True

    def add(self, ways: int, *, is_simple: bool) -> None:
        self.before, self.last, self.was_simple = self.branch, ways, is_simple
        self.branch *= ways

    def repeat(self, least: int, most: int) -> None:
        """Repeat the last element. Elements that repeat more than once are simple: of one way."""
        ways = self.last
        if most > 1:
            ways = most - least + 1
        elif least == 0:
            ways = most * ways + 1
        self.branch, self.is_simple = self.before * ways, False


def _cost_error(pattern: str) -> str:
    """Return why a pattern might take forever on some tag; "" if it cannot.

    Python tries one way after the other of matching the text, so a pattern is refused if their
    number has no small bound. Without repeated groups that contain repeats or alternatives, it is
    at most the product over all repeats of how often they may repeat, and over all alternatives of
    their number.
    """
    groups = [_Group()]
    for token in _TOKEN.finditer(pattern):
        group = groups[-1]
        if token["open"]:
            if token["hidden"]:
                return "comments and the flag x are not supported"
            groups.append(_Group())
        elif token["close"]:
            if len(groups) == 1:
                return "its brackets do not match"
            inner = groups.pop()
            groups[-1].add(inner.ways + inner.branch, is_simple=inner.is_simple)
            groups[-1].is_simple &= inner.is_simple
        elif token["either"]:
            group.ways, group.branch, group.is_simple = group.ways + group.branch, 1, False
        elif token["repeat"]:
            least, most = _bounds(token)
            if max(least, most) > MAX_TAG:
                return f"it has more than {MAX_TAG} repeats"
            if most > 1 and not group.was_simple:
                return (
                    "it repeats a group that contains repeats or alternatives, as (a+)+ does,"
                    " which may take forever"
                )
            group.repeat(least, most)
        else:
            group.add(1, is_simple=True)
    if len(groups) > 1:
        return "its brackets do not match"
    if groups[0].ways + groups[0].branch > MAX_WAYS:
        return "it has too many possible matches and may take forever; use fewer of * + and |"
    return ""


def _bounds(token: re.Match[str]) -> tuple[int, int]:
    """Return the smallest and largest number of repeats; unlimited is the longest tag's length."""
    match token["repeat"][0]:
        case "*":
            return 0, MAX_TAG
        case "+":
            return 1, MAX_TAG
        case "?":
            return 0, 1
    least = int(token["least"] or 0)
    if not token["comma"]:
        return least, least
    return least, int(token["most"] or max(MAX_TAG, least))
