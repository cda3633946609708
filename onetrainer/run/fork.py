"""Forks: new runs that go on from a kept checkpoint of another."""

import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from onetrainer.errors import UserError
from onetrainer.files.atomic import TEMPORARY, write_atomic
from onetrainer.files.inside import is_inside, open_inside, read_inside
from onetrainer.files.own_json import NotOurs, parse_json, typed
from onetrainer.run.checkpoint_files import DamagedCheckpoint, read_state
from onetrainer.run.leftovers import PART_SUFFIX
from onetrainer.run.run_folder import STATE_FILE, RunFolder, cannot_write, require_own

_STEP = re.compile(r"step-(\d+)")


def state_at(folder: RunFolder, step: int | None) -> dict[str, Any]:
    """Return the state of the checkpoint of a step; of the newest one for None.

    Raises:
        UserError: If there is no such checkpoint, or it is damaged, or in the folder is what is not
            of a run.
    """
    require_own(folder)
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
        write_atomic(fork.events, read_inside(source.events)[: state["events_size"]])
        if is_inside(source.lengths):
            write_atomic(fork.lengths, read_inside(source.lengths))
        if is_inside(source.retries):
            write_atomic(fork.retries, _returns_before(step, source.retries))
        copied = (source.samples, source.validation, source.rewards, source.start_files)
        kept = [pair for pair in source.complete_checkpoints() if pair[0] <= step]
        checkpoints = [path for _, path in kept]
        is_linked = _can_link(checkpoints, fork.path)
        _require_room(fork.path, copied if is_linked else (*copied, *checkpoints))
        for folder in copied:
            _copy(folder, fork.path / folder.name, until=step, copy_file=_copy_file)
        for number, path in kept:
            copy = fork.checkpoint(number)
            part = copy.with_name(copy.name + PART_SUFFIX)
            _copy(path, part, until=step, copy_file=_link)
            part.rename(copy)
    except BaseException as error:
        shutil.rmtree(fork.path, ignore_errors=True)
        if isinstance(error, OSError):
            raise cannot_write(fork.path, error) from error
        raise


def _returns_before(step: int, path: Path) -> bytes:
    """Return the record of a run's returns without those to a step or to a later one.

    Raises UserError if it is none.
    """
    try:
        returns = typed(parse_json(read_inside(path)), list[dict[str, Any]])
        earlier = [entry for entry in returns if entry["since"] < step]
    except (NotOurs, LookupError, TypeError) as error:
        raise UserError(
            f"{path}: cannot be read as the record of a run's returns",
            "Expected a file of this version of the program",
            "Delete it to go on with the full learning rate.",
        ) from error
    return json.dumps(earlier).encode()


def _require_room(place: Path, folders: Sequence[Path]) -> None:
    """Raise OSError unless there is room for copies, also of files that take none here."""
    files = (file for folder in folders for file in folder.rglob("*") if is_inside(file))
    if sum(file.lstat().st_size for file in files) > shutil.disk_usage(place).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(place))


def _can_link(checkpoints: Sequence[Path], place: Path) -> bool:
    """Return whether checkpoints take no room in a folder: not on another disk, nor on some."""
    probe = place / f"link{PART_SUFFIX}"
    try:
        for path in checkpoints[:1]:
            os.link(path / STATE_FILE, probe)
            probe.unlink()
    except OSError:
        return False
    return True


def _copy(
    source: Path, target: Path, *, until: int, copy_file: Callable[[Path, Path], object]
) -> None:
    """Copy a folder's files and folders but those of later steps, and unfinished ones."""
    target.mkdir(exist_ok=True)
    for path in source.iterdir() if source.is_dir() and not source.is_symlink() else ():
        step = _STEP.match(path.name)
        if (step and int(step[1]) > until) or TEMPORARY.fullmatch(path.name):
            continue
        if path.is_dir():
            _copy(path, target / path.name, until=until, copy_file=copy_file)
        elif is_inside(path):
            copy_file(path, target / path.name)


def _copy_file(source: Path, target: Path) -> None:
    with open_inside(source) as read, target.open("xb") as written:
        shutil.copyfileobj(read, written)
    shutil.copystat(source, target, follow_symlinks=False)


def _link(source: Path, target: Path) -> None:
    """Link a file that is never changed but replaced; copy it where that is impossible."""
    try:
        os.link(source, target)
    except OSError:
        _copy_file(source, target)
