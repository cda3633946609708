"""Steps that a person has starred: the worker deletes neither their checkpoints nor their files."""

import json

from onetrainer.files.atomic import write_atomic
from onetrainer.files.inside import read_inside
from onetrainer.json_file import MAX_BYTES
from onetrainer.run.run_folder import RunFolder, cannot_write


def starred_steps(folder: RunFolder) -> frozenset[int]:
    """Return the starred steps of a run; none where there is no file, or none of ours."""
    try:
        steps = json.loads(read_inside(folder.starred, most=MAX_BYTES))["steps"]
        return frozenset(step for step in steps if isinstance(step, int))
    except (OSError, ValueError, LookupError, TypeError):
        return frozenset()


def star(folder: RunFolder, step: int, *, is_starred: bool) -> frozenset[int]:
    """Star a step, or take its star back; return all that are starred then.

    Raises UserError if it cannot be written, or the folder is gone.
    """
    steps = starred_steps(folder)
    steps = steps | {step} if is_starred else steps - {step}
    try:
        folder.path.stat()  # a folder that was deleted meanwhile is not made again
        write_atomic(folder.starred, (json.dumps({"steps": sorted(steps)}) + "\n").encode())
    except OSError as error:
        raise cannot_write(folder.starred, error) from error
    return steps
