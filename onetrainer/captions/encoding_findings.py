"""Findings about caption files in other encodings: one for all files of a folder that share it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from onetrainer.captions.encodings import Reading, is_western, readings
from onetrainer.errors import some_of
from onetrainer.images.findings import Finding

_EXAMPLES = 3
_SHOWN = 24  # characters

File = tuple[Path, bytes]
"""A file that is no UTF-8, or was misread once, with what `misread` returns of it."""


def encoding_findings(folder: Path, files: Sequence[File]) -> Iterator[Finding]:
    """Yield the findings about the misread caption files of a folder."""
    western = [file for file in files if is_western(file[1])]
    other = [file for file in files if not is_western(file[1])]
    for some, found in _by_encoding(other):
        yield from _finding("caption-encoding", folder, some, found)
    twice = [file for file in western if readings([file[1]])[:1] and _is_utf8(file[1])]
    for some, found in _by_encoding(twice):
        yield from _finding("caption-guess", folder, some, found)
    if plain := [file for file in western if file not in twice]:
        example = _shown(plain[0][1].decode("cp1252", "replace"))
        yield Finding(
            "caption-guess",
            folder,
            f"{_counted(plain)} are not in UTF-8 and are read as Windows text (cp1252), such as"
            f' "{example}"',
            "Save them as UTF-8, if that is not what was written",
        )


def _by_encoding(files: Sequence[File]) -> Iterator[tuple[Sequence[File], Sequence[Reading]]]:
    """Yield files of one encoding with its readings: all together, if one makes sense of all."""
    if not files:
        return
    if found := readings([content for _, content in files]):
        yield files, found
        return
    groups: dict[str, list[File]] = {}
    for file in files:
        alone = readings([file[1]])
        groups.setdefault(alone[0].name if alone else "", []).append(file)
    for some in groups.values():
        yield some, readings([content for _, content in some])


def _finding(
    kind: str, folder: Path, files: Sequence[File], found: Sequence[Reading]
) -> Iterator[Finding]:
    text = _as_read(files[0][1])
    if text is None and not found:
        return  # the image is left out, with the reason
    them = "them" if len(files) > 1 else "it"
    read = "cannot be read" if text is None else f'are read as "{_shown(text)}"'
    if not found:
        what = f"{read}, and no encoding is known that makes sense of {them}"
        remedy = f"Save {them} as UTF-8, in an editor that shows {them} right"
    else:
        named = [f'{each.name} ("{_shown(each.text)}")' for each in found]
        what = f"{read}, but make sense as {' or as '.join(named)}"
        opened = found[0].name.removesuffix(" without its mark").rpartition(" in ")[2]
        remedy = f"Save {them} as UTF-8, in an editor that opens {them} in {opened}"
        if opened.startswith("UTF-8"):
            remedy = f"Save {them} again from the texts that they were made of"
    yield Finding(kind, folder, f"{_counted(files)} {what}", remedy)


def _as_read(content: bytes) -> str | None:
    """Return the text that training takes bytes for; None if it cannot read them."""
    try:
        text = content.decode("cp1252")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _counted(files: Sequence[File]) -> str:
    names = [path.name for path, _ in files]
    if len(names) == 1:
        return f"the captions of {names[0]}"
    return f"the captions of {len(names)} files ({some_of(names, _EXAMPLES)})"


def _shown(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
