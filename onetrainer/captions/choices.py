"""Wildcards in text: {red|green|blue}, with escaped braces."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

MAX_DEPTH = 10
"""Most levels of nested wildcards."""

_WORDS = re.compile(r"[^{}|]+")
_NO_FIELDS: Mapping[str, str] = {}
_REMEMBERED = 4096
_SHOWN = 40  # characters


@dataclass(frozen=True, slots=True)
class Choice:
    """Several texts of which one is used; place is its number within the whole text."""

    place: int
    options: tuple["Text", ...]

    @property
    def field(self) -> str:
        """The plain text in the braces, such as "name" in {name}; "" otherwise."""
        match self.options:
            case ((str(pieces),),):
                return pieces.strip()
        return ""


Text: TypeAlias = tuple["str | Choice", ...]
"""Plain text and choices in turn."""

Order: TypeAlias = Callable[[Choice, int], Sequence[int]]
"""The order in which a wildcard's options are used in one round: (choice, round) → order."""


class BraceError(Exception):
    """Unbalanced braces; the message says which."""


@lru_cache(_REMEMBERED)
def parse_choices(text: str) -> Text:
    """Return a text with its wildcards, which may be nested.

    Outside of wildcards, {{ and }} are literal braces and | is literal; within one, every brace
    opens or closes a wildcard, so that {a|{b|c}} works as expected.

    Raises:
        BraceError: a brace is opened and not closed, or closed and not opened.
    """
    # Open wildcards: the options so far, each a list of parts. The first is the whole text.
    open_: list[list[list[str | Choice]]] = [[[]]]
    opened: list[tuple[int, int]] = []  # its place among all choices, and where its brace stands
    at = count = 0
    while at < len(text):
        branch, pair = open_[-1], text[at : at + 2]
        if not opened and pair in ("{{", "}}"):
            branch[-1].append(pair[0])
            at += 2
            continue
        sign = text[at]
        if sign == "{":
            open_.append([[]])
            opened.append((count, at))
            count += 1
            if len(opened) > MAX_DEPTH:
                raise BraceError(f"more than {MAX_DEPTH} choices nested in each other")
        elif sign == "}":
            if not opened:
                raise BraceError(
                    f'a "}}" without "{{" {_place("after", text[max(at - _SHOWN, 0) : at])}'
                )
            place, _ = opened.pop()
            options = tuple(_joined(option) for option in open_.pop())
            open_[-1][-1].append(Choice(place, options))
        elif sign == "|" and opened:
            branch.append([])
        else:
            pieces = _WORDS.match(text, at)
            branch[-1].append(pieces[0] if pieces else sign)
            at += len(pieces[0]) if pieces else 1
            continue
        at += 1
    if opened:
        start = opened[-1][1] + 1
        raise BraceError(f'a "{{" without "}}" {_place("before", text[start : start + _SHOWN])}')
    return _joined(open_[0][0])


def brace_fault(text: str) -> str:
    """Return what is wrong with the braces of a text, such as 'a "{" without "}"'; "" if nothing.

    See `parse_choices`.
    """
    try:
        parse_choices(text)
    except BraceError as error:
        return str(error)
    return ""


def all_choices(text: Text) -> list[Choice]:
    """Return all wildcards of a text, including nested ones, in the order of their braces."""
    found = []
    for part in text:
        if isinstance(part, Choice):
            found.append(part)
            found += [inner for option in part.options for inner in all_choices(option)]
    return found


def choose_options(
    text: Text, repeat: int, order: Order, fields: Mapping[str, str] = _NO_FIELDS
) -> str:
    """Return the text with one option of each wildcard.

    repeat: Number of earlier uses of the text. In as many uses as a wildcard has options, each is
    used once; nested wildcards advance with the rounds of the outer one. fields: Values of {name}
    and the like, inserted literally.
    """
    pieces = []
    for part in text:
        if isinstance(part, str):
            pieces.append(part)
        elif part.field in fields:
            pieces.append(fields[part.field])
        else:
            round_, at = divmod(repeat, len(part.options))
            option = part.options[order(part, round_)[at]]
            pieces.append(choose_options(option, round_, order, fields))
    return "".join(pieces)


def written_order(choice: Choice, _round: int) -> range:
    """Return the options in the order in which they are written."""
    return range(len(choice.options))


def _joined(parts: Sequence[str | Choice]) -> Text:
    """Join adjacent strings."""
    joined: list[str | Choice] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return tuple(joined)


def _place(side: str, pieces: str) -> str:
    """Describe where a brace is, for a message."""
    if not pieces.strip():
        return "at the end" if side == "before" else "at the beginning"
    return f'{side} "{pieces}"'
