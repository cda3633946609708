"""Folders of runs that were started or shown on this computer, for lists of all runs."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from onetrainer.files.atomic import write_atomic
from onetrainer.files.locks import locked
from onetrainer.files.own_json import read_own
from onetrainer.run.user_folder import user_folder

_MOST = 50
_LOCK_WAIT = 2.0  # seconds


def known_run_folders() -> list[Path]:
    """Return the folders, the last one first; some may be gone, or on a disk that is."""
    # Not `str`, in which pydantic allows no folder whose name is of another encoding.
    found = read_own(_file(), list[Any], [], lost="no folder is known")
    return [Path(text) for text in found if isinstance(text, str)]


def remember_run_folder(folder: Path) -> None:
    """Put a folder in front. What cannot be written is remembered the next time."""
    with suppress(OSError):
        if next(iter(known_run_folders()), None) == folder:
            return
        _file().parent.mkdir(parents=True, exist_ok=True)
        with locked(_file().with_suffix(".lock"), wait=_LOCK_WAIT):
            others = [known for known in known_run_folders() if known != folder]
            texts = [str(known) for known in [folder, *others][:_MOST]]
            write_atomic(_file(), json.dumps(texts, indent=1).encode())


def _file() -> Path:
    return user_folder() / "run-folders.json"
