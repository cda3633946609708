"""Reading one caption file, in whatever encoding an editor left it."""

import codecs
import re
from pathlib import Path
from typing import Literal

MAX_BYTES = 1 << 20
"""Larger files are no captions; a megabyte is some thousand times what a text encoder sees."""

_LINE_END = re.compile(r"\r\n|\r|\n")


class CaptionError(Exception):
    """A caption that cannot be read. reason: why, in words that finish "picture: …"."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def read_captions(path: Path, *, lines: Literal["each", "joined"]) -> tuple[tuple[str, ...], str]:
    """The captions of a file, each on one line, and the encoding it was read in.

    lines: whether "each" is a caption of its own, empty ones not counted, or all "joined" are one.
    At least one caption: the empty one of a file that holds none.
    UTF-8 first; UTF-16 if its byte order mark says so; what is neither is taken for Windows'
    cp1252, which is worth telling, since a guess may be wrong. Runs of blanks become one space.
    Raises CaptionError if the file cannot be read, or is no text.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CaptionError(path, f"its caption cannot be read ({error.strerror})") from error
    if len(data) > MAX_BYTES:
        raise CaptionError(path, "its .txt file is larger than 1 MB, so it is no caption")
    decoded = decode_text(data)
    if decoded is None:
        raise CaptionError(path, "its caption is in no known encoding; save it as UTF-8")
    text, encoding = decoded
    if "\0" in text:
        raise CaptionError(path, "its .txt file is no text; save it as UTF-8")
    parts = _LINE_END.split(text) if lines == "each" else [text]
    found = tuple(caption for part in parts if (caption := " ".join(part.split())))
    return found or ("",), encoding


def decode_text(data: bytes) -> tuple[str, str] | None:
    """A text and the encoding that fits it, as `read_captions` tells; None if none does."""
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ("utf-16",) if wide else ("utf-8-sig", "cp1252"):
        try:
            return data.decode(encoding), encoding.removesuffix("-sig")
        except UnicodeDecodeError:
            continue
    return None
