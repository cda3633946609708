"""The text of a caption file as people write it, and the change that another text makes of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from onetrainer.captions.caption_file import MAX_BYTES, CaptionError, caption_lines, decode_text
from onetrainer.captions.encodings import encoding_of
from onetrainer.concepts.folder_listing import stem
from onetrainer.edits.saving import Change, read_content

NEW_SUFFIX = ".txt"
"""Extension of a new caption file: of several files of an image, this one is read."""


@dataclass(frozen=True)
class CaptionText:
    """A caption file as it was read.

    Attributes:
        path: The file.
        content: What it held; None if there is no such file.
        lines: Its lines as training reads them, without those that are empty.
    """

    path: Path
    content: bytes | None = None
    lines: tuple[str, ...] = ()


def new_caption_path(image: Path) -> Path:
    """Return the path of the caption file of an image that has none."""
    return image.with_name(stem(image.name) + NEW_SUFFIX)


def read_caption_text(
    path: Path, read: Callable[[Path], bytes | None] = read_content
) -> CaptionText:
    """Read a caption file, which may be missing. Raises CaptionError if it is no readable text.

    read: Returns what a file holds; may know of what is yet to be written.
    """
    try:
        content = read(path)
    except OSError as error:
        raise CaptionError(path, f"cannot be read ({error.strerror})") from error
    return caption_text(path, content)


def caption_text(path: Path, content: bytes | None) -> CaptionText:
    """Return a caption file's text from its content. Raises CaptionError if that is no text."""
    if content is None:
        return CaptionText(path)
    decoded = decode_text(content) if len(content) <= MAX_BYTES else None
    if meant := encoding_of(content[:MAX_BYTES]):
        # Saved as it is read now, it could not be told from what was written any more.
        raise CaptionError(path, f"it seems to be {meant}; save it as UTF-8")
    if decoded is None or "\0" in decoded[0]:
        raise CaptionError(path, "no text of up to 1 MB in a known encoding; save it as UTF-8")
    return CaptionText(path, content, caption_lines(decoded[0]))


def caption_change(text: CaptionText, lines: Sequence[str]) -> Change:
    """Return the change that gives a caption file other lines, as UTF-8.

    Line ends stay what they are, and so does whether the last line has one; a new file has one.
    Without any line the file becomes empty; one that is missing stays missing.
    """
    clean = [line for each in lines if (line := " ".join(each.split()))]
    content = text.content
    if tuple(clean) == text.lines or (content is None and not clean):
        return Change(text.path, content, content)
    end = "\r\n" if content and b"\r\n" in content else "\n"
    has_last_end = content is None or not content or content.endswith((b"\n", b"\r"))
    body = end.join(clean) + (end if clean and has_last_end else "")
    return Change(text.path, content, body.encode())
