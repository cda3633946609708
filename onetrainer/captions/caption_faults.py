"""Captions that can be read and tell a model nothing, or something else than was meant."""

import re

from onetrainer.config.base.prompt_weights import PromptWeights
from onetrainer.images.file_kind import HEAD, LFS_POINTER, WEB_PAGE, kind_of

_SIGN = re.compile(r"[^\W_]")
_APART = re.compile(r"[\W_]+")
_IMAGE_SUFFIX = re.compile(r"\.(png|jpe?g|jfif|webp|gif|bmp|tiff?|avif|heic)$", re.IGNORECASE)
_MADE_UP = re.compile(r"[\d_]")
"""What the name of a file has that a camera or a program has named."""

_PLACEHOLDERS = frozenset(
    [
        *("todo", "tbd", "fixme", "xxx", "none", "null", "nan", "na", "n a", "undefined"),
        *("unknown", "untitled", "empty", "blank", "caption", "captions", "caption here"),
        *("your caption here", "insert caption here", "write caption here"),
        *("write a caption here", "add caption", "add caption here", "enter caption here"),
        *("no caption", "text", "placeholder", "placeholder text", "description"),
        *("no description", "description here", "prompt", "image", "your description here"),
        *("prompt here", "your text here", "an image", "photo", "picture", "test", "testing"),
        *("asdf", "foo", "error", "failed", "new text document"),
    ]
)
_REFUSAL = re.compile(
    r"((i'?m |i am )?sorry|i can'?t|i cannot|(i'?m|i am) unable|as an ai|lorem ipsum)\b",
    re.IGNORECASE,
)

_SYNTAX = re.compile(
    r"<(?:lora|lyco|loha|lokr|hypernet|ti|embedding)\s*:[^<>]*>"
    r"|\bembedding:[\w.\-/]+"
    r"|\b(?:BREAK|ADD(?:COMM|BASE|ROW|COL))\b"
    r"|\[[^\[\]:|]*:(?:[^\[\]:|]*:)?\s*\d*\.?\d+\s*\]"
    r"|\[[^\[\]|]+(?:\|[^\[\]|]+)+\]"
    r"|(?<!\S)--(?:ar|aspect|v|version|q|quality|s|stylize|style|niji|no|chaos|seed|iw|w|h|n|d|l)\s"
    r"(?=\S)|(?<![^\s,])__\w[\w/\-]*__(?![^\s,])"
)
_WEIGHTS = re.compile(r"\([^()]*:\s*[+-]?(?:\d+\.?\d*|\.\d+)\s*\)|\(\([^()]+\)\)")
_WILDCARD = re.compile(r"\{[^{}]*\|[^{}]*\}")
_MARKS = re.compile(r"[<\[({:]|--|__|BREAK|ADD")
"""One of which all of these have; most captions have none, and very many are searched."""
_MOST_SHOWN = 40  # characters
_MOST_NAMED = 100
"""Length of placeholders and of most names of files, beyond which a caption describes."""


def says_nothing(caption: str, *, stem: str, trigger: str = "") -> str:
    """Return what a caption is instead of one, such as "only punctuation"; "" if it may be one.

    stem: The name of its image without extension. trigger: The words that every caption gets.
    """
    if not caption:
        return ""
    if caption.startswith(("<", "version http")):
        kind = kind_of(caption.encode()[:HEAD])
        if kind in (LFS_POINTER, WEB_PAGE):
            return kind.noun
    if not _SIGN.search(caption):
        return "only punctuation"
    if _REFUSAL.match(caption):
        return "what a model says that describes no image"
    if len(caption) > _MOST_NAMED and len(caption) > len(trigger):
        return ""
    plain = _plain(caption)
    if trigger and plain == _plain(trigger):
        return "only the trigger words, which it gets anyway"
    if plain in _PLACEHOLDERS:
        return f'"{caption}", as if it was still to be written'
    is_name = is_file_name(caption, stem)
    if is_name and (_MADE_UP.search(stem) or _IMAGE_SUFFIX.search(caption)):
        return "only the name of its file"
    return ""


def is_file_name(caption: str, stem: str) -> bool:
    """Return whether a caption is the name of its image, with or without extension."""
    return _plain(_IMAGE_SUFFIX.sub("", caption)) == _plain(stem) != ""


def unread_syntax(caption: str, *, weights: PromptWeights, wildcards: bool) -> str:
    """Return the first part of a caption that other programs obey and training reads as text.

    weights: Of parentheses in captions. wildcards: Whether {a|b} is a choice.
    """
    if not _MARKS.search(caption):
        return ""
    for pattern, is_read in (
        (_SYNTAX, False),
        (_WEIGHTS, weights != "off"),
        (_WILDCARD, wildcards),
    ):
        found = None if is_read or caption.isupper() else pattern.search(caption)
        if found:
            text = found[0].strip()
            return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"
    return ""


def _plain(text: str) -> str:
    return _APART.sub(" ", text).strip().casefold()
