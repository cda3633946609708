"""The files of a checkpoint and their digests: which ones are as they were written.

Of step-NNNNNN/ state.json is written last. It has the SHA-256 of every other file and of its own
content. A damaged checkpoint is renamed once a sound one is found: so every reader, also of another
version, leaves it out without reading it, and it neither counts as kept nor is deleted.
"""

import errno
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onetrainer.errors import UserError
from onetrainer.files.inside import MOST_BYTES, NotInside, open_inside, read_inside
from onetrainer.files.names import is_plain_name
from onetrainer.files.own_json import MAX_BYTES, NotOurs, parse_object, typed
from onetrainer.run.run_folder import STATE_FILE

DAMAGED_SUFFIX = ".damaged"
_ASIDE = re.compile(rf"step-\d+{re.escape(DAMAGED_SUFFIX)}(-\d+)?")
_TENSORS = ".safetensors"
_FILES, _OWN = "files", "sha256"


class DamagedCheckpoint(Exception):
    """A checkpoint is not what was written; the message says which file, and what was found."""


@dataclass(frozen=True)
class _Known:
    """What is used of a state here. events_size: Bytes of the events up to it."""

    step: int
    events_size: int
    config: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.events_size < 0:
            raise ValueError("a file has a size")


def state_content(state: Mapping[str, Any], digests: Mapping[str, str]) -> bytes:
    """Return the content of a state file.

    digests: Of the checkpoint's other files by their names.
    """
    document = {**state, _FILES: dict(digests)}
    return json.dumps({**document, _OWN: _digest(document)}, indent=2).encode()


def read_state(folder: Path, step: int) -> dict[str, Any]:
    """Return the state of the checkpoint of a step.

    Raises:
        DamagedCheckpoint: If it is not what was written, or belongs to another step.
    """
    return _read(folder, step)[0]


def verify(folder: Path, step: int) -> None:
    """Check all files of the checkpoint of a step; those of earlier versions have no digests.

    Raises:
        DamagedCheckpoint: If one is missing or is not what was written.
        UserError: If one may not be read.
    """
    for name, expected in _read(folder, step)[1].items():
        try:
            with open_inside(folder / name) as file:
                if not name.endswith(_TENSORS) and file.seek(0, os.SEEK_END) > MOST_BYTES:
                    raise DamagedCheckpoint(f"{name} is larger than such a file can be")
                file.seek(0)
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise _unreadable(folder / name, error) from error
        if found != expected:
            raise DamagedCheckpoint(f"{name} is not what was written")


def size_of(folder: Path) -> int:
    """Return the bytes that a checkpoint takes."""
    return sum(file.stat().st_size for file in folder.iterdir())


def unusable_checkpoints(parent: Path) -> dict[Path, str]:
    """Return the folders that are no complete checkpoints any more, and what is wrong with each."""
    found = {}
    for path in sorted(each for each in parent.glob("step-*") if each.is_dir()):
        if _ASIDE.fullmatch(path.name):
            found[path] = "found before"
        elif step_of(path) >= 0 and not (path / STATE_FILE).is_file():
            found[path] = f"{STATE_FILE} is missing"
    return found


def step_of(folder: Path) -> int:
    """Return the step of a checkpoint's folder; -1 if it has the name of none, or of one aside."""
    number = folder.name.removeprefix("step-")
    return int(number) if number.isdecimal() else -1


def set_aside(folder: Path) -> Path:
    """Rename a damaged checkpoint, and return its new path. Raises OSError."""
    names = [folder.with_name(folder.name + DAMAGED_SUFFIX)]
    while names[-1].exists():
        names.append(folder.with_name(f"{folder.name}{DAMAGED_SUFFIX}-{len(names) + 1}"))
    return folder.rename(names[-1])


def _read(folder: Path, step: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a state file's content and the digests in it; none from earlier versions."""
    path = folder / STATE_FILE
    try:
        document = parse_object(read_inside(path, most=MAX_BYTES))
    except OSError as error:
        raise _unreadable(path, error) from error
    except NotOurs as error:
        raise DamagedCheckpoint(f"{STATE_FILE} {error}") from error
    own = document.pop(_OWN, None)
    if (own is not None or _FILES in document) and own != _digest(document):
        raise DamagedCheckpoint(f"{STATE_FILE} is not what was written")
    if document.get("step") != step:
        raise DamagedCheckpoint(f"{STATE_FILE} is that of step {str(document.get('step'))[:20]}")
    try:
        known = typed(document, _Known)
    except NotOurs as error:
        raise DamagedCheckpoint(f"{STATE_FILE} {error}") from error
    if strange := [name for name in known.files if not is_plain_name(name)]:
        raise DamagedCheckpoint(f"{STATE_FILE} names a file elsewhere ({strange[0][:100]})")
    document.pop(_FILES, None)
    # Of those types: "12" and 12.0 count as 12, and stay what they are in the file's digest.
    return document | {"step": known.step, "events_size": known.events_size}, known.files


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _unreadable(path: Path, error: OSError) -> Exception:
    """Return damage for a file that is gone or cannot be read from the disk."""
    reason = (error.strerror or str(error)).lower()
    if isinstance(error, NotInside) or error.errno in (errno.ENOENT, errno.EIO):
        return DamagedCheckpoint(f"{path.name} cannot be read ({reason})")
    return UserError(
        f"{path}: cannot be read ({reason})",
        "Expected a checkpoint's file that this program may read",
        "Correct its permissions, or connect its disk again.",
    )
