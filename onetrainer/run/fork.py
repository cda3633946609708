"""Forks: new runs that go on from a kept checkpoint of another."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onetrainer.errors import UserError
from onetrainer.files.atomic import TEMPORARY, write_atomic
from onetrainer.files.own_json import parse_json, typed
from onetrainer.run.checkpoint_files import DamagedCheckpoint, read_state
from onetrainer.run.leftovers import PART_SUFFIX
from onetrainer.run.run_folder import RunFolder, cannot_write

_STEP = re.compile(r"step-(\d+)")


def state_at(folder: RunFolder, step: int | None) -> dict[str, Any]:
    """Return the state of the checkpoint of a step; of the newest one for None.

    Raises:
        UserError: If there is no such checkpoint, or it is damaged.
    """
    kept = [number for number, _ in folder.complete_checkpoints()]
    step = max(kept, default=0) if step is None else step
    try:
        if step in kept:
            return read_state(folder.checkpoint(step), step)
        what = f"{folder.path}: this run has no checkpoint of step {step}"
    except DamagedCheckpoint as error:
        what = f"{folder.checkpoint(step)}: this checkpoint is damaged ({error})"
    raise UserError(
        what if kept else f"{folder.path}: this run has no checkpoint",
        f"Expected one of the steps {', '.join(map(str, kept))}" if kept else "",
        "Choose one of them; output.keep_checkpoints keeps more." if kept else "Train it first.",
    )


def copy_history(source: RunFolder, state: dict[str, Any], fork: RunFolder) -> None:
    """Copy into a new run's folder what another one was at a checkpoint; remove it on failure.

    state: The checkpoint's. Checkpoints come last, the oldest first: also what an interrupted copy
    leaves is a run that goes on from one of them.

    Raises:
        UserError: If a file cannot be read, or written.
    """
    step = state["step"]
    try:
        with source.events.open("rb") as events:
            write_atomic(fork.events, events.read(state["events_size"]))
        if source.lengths.is_file():
            write_atomic(fork.lengths, source.lengths.read_bytes())
        if source.retries.is_file():
            # Returns to this checkpoint or to a later one have not happened yet.
            returns = typed(parse_json(source.retries.read_bytes()), list[dict[str, Any]])
            earlier = [entry for entry in returns if entry["since"] < step]
            write_atomic(fork.retries, json.dumps(earlier).encode())
        for folder in (source.samples, source.validation, source.rewards, source.start_files):
            _copy(folder, fork.path / folder.name, until=step, copy_file=shutil.copy2)
        for number, path in source.complete_checkpoints():
            if number <= step:
                copy = fork.checkpoint(number)
                part = copy.with_name(copy.name + PART_SUFFIX)
                _copy(path, part, until=step, copy_file=_link)
                part.rename(copy)
    except (OSError, ValueError, LookupError, TypeError) as error:
        shutil.rmtree(fork.path, ignore_errors=True)
        if isinstance(error, OSError):
            raise cannot_write(fork.path, error) from error
        raise UserError(
            f"{source.retries}: cannot be read as the record of a run's returns",
            "Expected a file of this version of the program",
            "Delete it to go on with the full learning rate.",
        ) from error


def _copy(
    source: Path, target: Path, *, until: int, copy_file: Callable[[Path, Path], object]
) -> None:
    """Copy a folder's files and folders but those of later steps, and unfinished ones."""
    target.mkdir(exist_ok=True)
    for path in source.iterdir() if source.is_dir() else ():
        step = _STEP.match(path.name)
        if (step and int(step[1]) > until) or TEMPORARY.fullmatch(path.name):
            continue
        if path.is_dir():
            _copy(path, target / path.name, until=until, copy_file=copy_file)
        else:
            copy_file(path, target / path.name)


def _link(source: Path, target: Path) -> None:
    """Link a file that is never changed but replaced; copy it where that is impossible."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
