"""Read a caption file in any common encoding."""

import codecs
from pathlib import Path
from typing import Literal

from onetrainer.captions.encodings import encoding_of
from onetrainer.files.inside import open_ordinary
from onetrainer.files.lines import split_lines
from onetrainer.images.image_file import ImageError

MAX_BYTES = 1 << 20
"""Largest caption file: a megabyte is some thousand times what a text encoder reads."""


class CaptionError(ImageError):
    """A caption that cannot be read; reason completes "image: …"."""


def read_caption_file(path: Path) -> bytes:
    """Return the content of a caption file. Raises CaptionError if it cannot be read."""
    try:
        with open_ordinary(path) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CaptionError(path, f"its caption cannot be read ({error.strerror})") from error
    if len(data) > MAX_BYTES:
        raise CaptionError(path, f"its {path.suffix} file is larger than 1 MB, so it is no caption")
    return data


def read_captions(path: Path, *, lines: Literal["each", "joined"]) -> tuple[str, ...]:
    """Return the captions of a file. Raises CaptionError, see `captions_of`."""
    return captions_of(path, read_caption_file(path), lines=lines)


def captions_of(path: Path, content: bytes, *, lines: Literal["each", "joined"]) -> tuple[str, ...]:
    """Return the captions of a file with this content, each as a single line.

    UTF-8 is tried first; UTF-16 if the byte order mark says so; anything else is taken for Windows'
    cp1252, which is a guess (see `misread`). Runs of blanks become one space.

    Each line is a caption of its own, without empty ones, or all are joined. An empty file has the
    caption "". Raises CaptionError if the content is not text.
    """
    decoded = decode_text(content)
    if decoded is None or "\0" in decoded[0]:
        meant = encoding_of(content)
        what = f"seems to be {meant}" if meant else "is no text in a known encoding"
        raise CaptionError(path, f"its {path.suffix} file {what}; save it as UTF-8")
    found = caption_lines(decoded[0])
    return (found or ("",)) if lines == "each" else (" ".join(found),)


def caption_lines(text: str) -> tuple[str, ...]:
    """Return the lines of a caption file without empty ones; runs of blanks become one space."""
    return tuple(caption for line in split_lines(text) if (caption := " ".join(line.split())))


def decode_text(data: bytes) -> tuple[str, str] | None:
    """Return the text and its encoding as in `captions_of`; None if none fits."""
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ("utf-16",) if wide else ("utf-8-sig", "cp1252"):
        try:
            return data.decode(encoding), encoding.removesuffix("-sig")
        except UnicodeDecodeError:
            continue
    return None
