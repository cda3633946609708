"""Removing what killed workers have left in a run's folder."""

import re
import shutil
from contextlib import suppress
from pathlib import Path

from onetrainer.files.atomic import remove_leftovers
from onetrainer.run.run_folder import STATE_FILE, RunFolder

PART_SUFFIX = ".part"
"""Of a checkpoint that is being written."""
_CHECKPOINT = re.compile(rf"step-\d{{6,}}({re.escape(PART_SUFFIX)})?")


def clean(folder: RunFolder) -> None:
    """Remove what killed workers have left; call while holding the folder's lock.

    Unfinished files, and checkpoints that were being written or deleted; what has another name
    stays. So does a checkpoint without its state file where no other is complete: the newest one is
    never deleted, so this one is damaged.
    """
    for path in (folder.path, *_written_folders(folder)):
        remove_leftovers(path)
    complete = {path for _, path in folder.complete_checkpoints()}
    for path in folder.checkpoints.glob("step-*"):
        is_part = path.name.endswith(PART_SUFFIX)
        is_litter = (is_part or complete) and path not in complete
        if is_litter and _CHECKPOINT.fullmatch(path.name):
            with suppress(OSError):
                remove_checkpoint(path)


def remove_checkpoint(path: Path) -> None:
    """Delete a checkpoint, its state file first: half of it never counts as one. Raises OSError."""
    if path.exists():
        (path / STATE_FILE).unlink(missing_ok=True)
        shutil.rmtree(path)


def _written_folders(folder: RunFolder) -> list[Path]:
    """Return the folders that hold files of a run, and those in them for single steps or files."""
    direct = [folder.output, folder.samples, folder.validation, folder.rewards, folder.start_files]
    nested = [path for parent in direct for path in parent.glob("*/") if not path.is_symlink()]
    return direct + nested
