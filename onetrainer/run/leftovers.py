"""Removing what killed workers have left in a run's folder."""

import re
from contextlib import suppress
from pathlib import Path

from onetrainer.files.atomic import remove, remove_leftovers
from onetrainer.run.run_folder import STATE_FILE, RunFolder

PART_SUFFIX = ".part"
"""Of a checkpoint that is being written."""
_CHECKPOINT = re.compile(rf"step-(\d{{6,}})({re.escape(PART_SUFFIX)})?")


def clean(folder: RunFolder) -> None:
    """Remove what killed workers have left; call while holding the folder's lock.

    Others write to the run's own folder too, such as reports, and to a folder that is a link; to
    the rest only the worker does, which may have been killed on another computer a moment ago.

    Unfinished files, and checkpoints that were being written or deleted; what has another name
    stays. So does a checkpoint without its state file where no later one is complete: the newest
    one is never deleted, so this one is damaged.
    """
    remove_leftovers(folder.path)
    written = (folder.output, folder.samples, folder.checkpoints, folder.validation)
    for parent in (*written, folder.rewards, folder.start_files):
        is_own = not parent.is_symlink()
        nested = [path for path in parent.glob("*/") if not path.is_symlink()]
        for path in (parent, *nested):
            remove_leftovers(path, is_locked=is_own)
    complete, newest = {path for _, path in folder.complete_checkpoints()}, folder.newest_step()
    for path in folder.checkpoints.glob("step-*"):
        found = _CHECKPOINT.fullmatch(path.name)
        if not found or path in complete:
            continue
        with suppress(OSError):
            if found[2] or int(found[1]) < newest or (complete and not any(path.iterdir())):
                remove_checkpoint(path)


def remove_checkpoint(path: Path) -> None:
    """Delete a checkpoint, its state file first: half of it never counts as one. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        (path / STATE_FILE).unlink(missing_ok=True)
    remove(path)
