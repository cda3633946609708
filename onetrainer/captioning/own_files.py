"""The captions and masks that this program has written by itself, to tell them from a person's."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from onetrainer.files.own_json import NotOurs, parse_json, typed
from onetrainer.run.run_folder import cannot_write
from onetrainer.run.user_folder import user_folder


@dataclass(frozen=True)
class OwnFile:
    """A file as this program wrote it once.

    Attributes:
        path: The file.
        digest: Of what it wrote. A file with another content is a person's.
        theirs: The caption that a person had there, and has.
        made: Of a mask, a digest of what it was made of.
    """

    path: Path
    digest: str
    theirs: str = ""
    made: str = ""


OwnFiles = Mapping[tuple[Path, str], OwnFile]
"""By path and digest: whatever was ever written to a path is this program's own there."""


def own_files(images: Path) -> OwnFiles:
    """Return the files that were written for a folder of images."""
    found = {}
    try:
        lines = notes_of(images, "own").read_bytes().split(b"\n")
    except OSError:
        return {}
    for line in lines:
        try:
            own = typed(parse_json(line), OwnFile)
        except NotOurs:
            continue  # cut off
        found[own.path, own.digest] = own
    return found


def remember(images: Path, written: Iterable[OwnFile]) -> None:
    """Note files that are about to be written. Raises UserError if that is not possible."""
    lines = [json.dumps({**vars(each), "path": str(each.path)}) for each in written]
    place = notes_of(images, "own")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("ab") as file:
            file.write("\n".join(["", *lines, ""]).encode())
    except OSError as error:
        raise cannot_write(place, error) from error


def digest(content: bytes) -> str:
    """Return what tells a content from others."""
    return hashlib.sha256(content).hexdigest()[:32]


def notes_of(images: Path, about: str) -> Path:
    """Return the file that notes something about a folder of images."""
    name = hashlib.sha256(str(images.absolute()).encode()).hexdigest()[:16]
    return user_folder() / "captioning" / f"{about}-{name}.json"
