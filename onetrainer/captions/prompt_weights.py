r"""Weights of words in prompts: "(word)", "(word:1.3)", "[word]", and "\(" for the character.

AUTOMATIC1111's web UI multiplies the weights of nested parentheses; its brackets divide. In ComfyUI
a number replaces the weights around it, and brackets are text. Sources: the former's wiki,
"Features: Attention/emphasis"; the latter's README, "Notes", and what its parser does with
parentheses that have no partner.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from onetrainer.config.base.prompt_weights import PromptWeights

_WITHOUT_NUMBER = 1.1
_NUMBER = r":\s*([+-]?(?:\d+\.?\d*|\.\d+))\s*\)"
_MARKS = re.compile(rf"\\[()\[\]\\]?|{_NUMBER}|[()\[\]]")
_ESCAPED = {"\\(": "\x01", "\\)": "\x02"}
"""Parentheses that are text in ComfyUI, by characters that no prompt has."""
_WEIGHTED = re.compile(r"\([^()]*:\s*[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*\)")
_DEEPEST = 100
"""Levels of parentheses that are read, deeper ones are text; ComfyUI fails at a thousand."""


@dataclass
class _Piece:
    """A text and its weight so far."""

    text: str
    weight: float = 1.0


def has_weights(text: str) -> bool:
    """Return whether a text has a weight with a number, such as "(word:1.3)"."""
    return _WEIGHTED.search(text) is not None


def weighted_pieces(text: str, style: PromptWeights) -> list[tuple[str, float]]:
    """Return the pieces of a text with their weights, each of which is tokenized by itself."""
    match style:
        case "off":
            return [(text, 1.0)]
        case "a1111":
            return _a1111_pieces(text)
        case "comfyui":
            return _comfyui_pieces(text)


def _a1111_pieces(text: str) -> list[tuple[str, float]]:
    found: list[_Piece] = []
    opened: dict[str, list[int]] = {"(": [], "[": []}
    end = 0
    for mark in _MARKS.finditer(text):
        found.append(_Piece(text[end : mark.start()]))
        end = mark.end()
        pair = {")": "(", "]": "["}.get(mark[0][-1], "")
        if mark[0] in opened:
            opened[mark[0]].append(len(found))
        elif mark[0][0] != "\\" and opened.get(pair):
            factor = float(mark[1] or _WITHOUT_NUMBER)
            _multiply(found[opened[pair].pop() :], factor if pair == "(" else 1 / factor)
        else:
            found.append(_Piece(mark[0].removeprefix("\\")))
    found.append(_Piece(text[end:]))
    for parenthesis, starts in opened.items():
        for start in starts:
            factor = _WITHOUT_NUMBER if parenthesis == "(" else 1 / _WITHOUT_NUMBER
            _multiply(found[start:], factor)
    return _joined(found)


def _multiply(pieces: list[_Piece], factor: float) -> None:
    for piece in pieces:
        piece.weight *= factor


def _comfyui_pieces(text: str) -> list[tuple[str, float]]:
    for escaped, mark in _ESCAPED.items():
        text = text.replace(escaped, mark)
    found: list[tuple[str, float]] = []
    waiting = [(text, 1.0, 0)]
    while waiting:
        part, weight, depth = waiting.pop()
        if depth < 0 or depth > _DEEPEST:
            found.append((part, weight))
            continue
        inner = []
        for group in _groups(part):
            if len(group) < 2 or group[0] != "(" or group[-1] != ")":
                inner.append((group, weight, -1))
                continue
            content, _, number = group[1:-1].rpartition(":")
            own = _number(number) if content else None
            if own is None:
                inner.append((group[1:-1], weight * _WITHOUT_NUMBER, depth + 1))
            else:
                inner.append((content, own, depth + 1))
        waiting += reversed(inner)
    originals = str.maketrans({mark: escaped[1:] for escaped, mark in _ESCAPED.items()})
    return [(part.translate(originals), weight) for part, weight in found] or [("", 1.0)]


def _groups(text: str) -> Iterator[str]:
    """Split a text around its outer parentheses.

    One that closes too much makes up for the next one that opens, so that neither marks a group.
    """
    depth = start = 0
    for at, char in enumerate(text):
        if char == "(":
            if depth == 0:
                if start < at:
                    yield text[start:at]
                start = at
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                yield text[start : at + 1]
                start = at + 1
    if start < len(text):
        yield text[start:]


def _number(text: str) -> float | None:
    """Return a number as Python writes it: "1.3", " 2. ", "1e1"; None for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _joined(pieces: list[_Piece]) -> list[tuple[str, float]]:
    """Join pieces of equal weight, so that they are tokenized together; leave out empty ones."""
    found: list[tuple[str, float]] = []
    for piece in pieces:
        if found and piece.text and found[-1][1] == piece.weight:
            found[-1] = (found[-1][0] + piece.text, piece.weight)
        elif piece.text:
            found.append((piece.text, piece.weight))
    return found or [("", 1.0)]
