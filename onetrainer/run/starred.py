"""Steps that a person has starred: the worker deletes neither their checkpoints nor their files."""

import json
from dataclasses import dataclass

from onetrainer.files.atomic import write_atomic
from onetrainer.files.inside import read_inside
from onetrainer.files.own_json import NotOurs, parse_json, read_own, set_aside, typed
from onetrainer.run.run_folder import RunFolder, cannot_write


@dataclass(frozen=True)
class _Starred:
    steps: tuple[int, ...] = ()


def starred_steps(folder: RunFolder) -> frozenset[int]:
    """Return the starred steps of a run, of a damaged file those that are sound."""
    lost = "the rest counts as not starred"
    found = read_own(folder.starred, _Starred, _Starred(), lost=lost, is_of_run=True)
    return frozenset(found.steps)


def are_stars_known(folder: RunFolder) -> bool:
    """Return whether every star can be read; if not, nothing is deleted that may have one."""
    try:
        typed(parse_json(read_inside(folder.starred)), _Starred)
    except FileNotFoundError:
        return True
    except (OSError, NotOurs):
        return False
    return True


def star(folder: RunFolder, step: int, *, is_starred: bool) -> frozenset[int]:
    """Star a step, or take its star back; return all that are starred then.

    Raises UserError if it cannot be written, or the folder is gone.
    """
    steps = starred_steps(folder)
    steps = steps | {step} if is_starred else steps - {step}
    try:
        folder.path.stat()  # a folder that was deleted meanwhile is not made again
        set_aside(folder.starred, _Starred)
        write_atomic(folder.starred, (json.dumps({"steps": sorted(steps)}) + "\n").encode())
    except OSError as error:
        raise cannot_write(folder.starred, error) from error
    return steps
