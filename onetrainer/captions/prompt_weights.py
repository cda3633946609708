r"""Weights of words in prompts: "(word)", "(word:1.3)", "[word]", and "\(" for the character.

AUTOMATIC1111's web UI multiplies the weights of nested parentheses; its brackets divide. In ComfyUI
a number replaces the weights around it, and brackets are text. Sources: the former's wiki,
"Features: Attention/emphasis"; the latter's README, "Notes".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from onetrainer.config.base.prompt_weights import PromptWeights

_WITHOUT_NUMBER = 1.1
_NUMBER = r":\s*([+-]?(?:\d+\.?\d*|\.\d+))\s*\)"
_MARKS: Mapping[str, re.Pattern[str]] = {
    "a1111": re.compile(rf"\\[()\[\]\\]?|{_NUMBER}|[()\[\]]"),
    "comfyui": re.compile(rf"\\[()]|{_NUMBER}|[()]"),
}
_WEIGHTED = re.compile(rf"\([^()]*{_NUMBER}")


@dataclass
class _Piece:
    """A text and its weight so far. is_fixed: Whether parentheses around do not change it."""

    text: str
    weight: float = 1.0
    is_fixed: bool = False


def has_weights(text: str) -> bool:
    """Return whether a text has a weight with a number, such as "(word:1.3)"."""
    return _WEIGHTED.search(text) is not None


def weighted_pieces(text: str, style: PromptWeights) -> list[tuple[str, float]]:
    """Return the pieces of a text with their weights; consecutive weights differ."""
    if style == "off":
        return [(text, 1.0)]
    found: list[_Piece] = []
    opened: dict[str, list[int]] = {"(": [], "[": []}
    end = 0
    for mark in _MARKS[style].finditer(text):
        found.append(_Piece(text[end : mark.start()]))
        end = mark.end()
        pair = {")": "(", "]": "["}.get(mark[0][-1], "")
        if mark[0] in opened:
            opened[mark[0]].append(len(found))
            found.append(_Piece(""))  # the parenthesis, if it is never closed
        elif mark[0][0] != "\\" and opened.get(pair):
            factor = float(mark[1] or _WITHOUT_NUMBER)
            is_fixed = bool(mark[1]) and style == "comfyui"
            _multiply(found[opened[pair].pop() :], factor if pair == "(" else 1 / factor, is_fixed)
        else:
            found.append(_Piece(mark[0].removeprefix("\\")))
    found.append(_Piece(text[end:]))
    for parenthesis, starts in opened.items():
        for start in starts:
            if style == "comfyui":
                found[start].text = parenthesis
            else:
                factor = _WITHOUT_NUMBER if parenthesis == "(" else 1 / _WITHOUT_NUMBER
                _multiply(found[start:], factor, is_fixed=False)
    return _joined(found)


def _multiply(pieces: list[_Piece], factor: float, is_fixed: bool) -> None:
    for piece in pieces:
        if not piece.is_fixed:
            piece.weight *= factor
            piece.is_fixed = is_fixed


def _joined(pieces: list[_Piece]) -> list[tuple[str, float]]:
    """Join pieces of equal weight, so that they are tokenized together; leave out empty ones."""
    found: list[tuple[str, float]] = []
    for piece in pieces:
        if found and piece.text and found[-1][1] == piece.weight:
            found[-1] = (found[-1][0] + piece.text, piece.weight)
        elif piece.text:
            found.append((piece.text, piece.weight))
    return found or [("", 1.0)]
