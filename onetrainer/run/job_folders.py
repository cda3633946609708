"""Folders of jobs, which are started and queued as runs are: this program makes them, nobody else.

A job does what its request says, such as writing a file anywhere. So a request counts only in the
place where this user's own jobs are, whatever the config of another folder says.
"""

import os
import sys
from pathlib import Path

from onetrainer.run.run_folder import RunFolder
from onetrainer.run.user_folder import user_folder

JOB = "caption"
"""The one job that has a folder; its name as the config says it."""


def jobs_folder() -> Path:
    """Return the folder of this user's captioning jobs."""
    return user_folder() / "captioning"


def make_job_folder(path: Path) -> None:
    """Make a job's folder, in one that is this user's alone. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.mkdir(exist_ok=True)


def is_job(folder: RunFolder) -> bool:
    """Return whether a folder is that of a job of this user, not of a run; without reading it."""
    place, jobs = folder.path.resolve(), jobs_folder().resolve()
    return place.parent == jobs and all(map(_is_of_this_user, (place, jobs)))


def _is_of_this_user(path: Path) -> bool:
    if sys.platform == "win32":  # where the folder of each user is closed to others
        return True
    try:
        return path.stat().st_uid == os.getuid()
    except FileNotFoundError:
        return True
