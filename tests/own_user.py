"""Folders of their own for tests, campaigns and benchmarks.

So they meet no run, queue, preset or owner of a device of whoever starts them, and leave none.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path
from unittest.mock import patch

from onetrainer import ROOT


def user_variables(folder: Path) -> Mapping[str, str]:
    """The environment variables by which a folder holds all that is a user's."""
    names = ("XDG_CONFIG_HOME", "APPDATA") if sys.platform != "darwin" else ("HOME",)
    return dict.fromkeys(names, str(folder))


@contextmanager
def own_user(folder: Path | None = None) -> Iterator[None]:
    """A user without anything, for this process and those that it starts.

    folder: Where what becomes theirs is kept; by default it goes at the end.
    """
    with (
        tempfile.TemporaryDirectory(prefix="onetrainer-user-") as made,
        patch.dict(os.environ, user_variables(folder or Path(made))),
    ):
        yield


@contextmanager
def own_current_folder(folder: Path) -> Iterator[None]:
    """What is written to a relative path, such as the default folder of runs, is in no checkout.

    Processes that are started find the program nevertheless.
    """
    with chdir(folder), patch.dict(os.environ, {"PYTHONPATH": str(ROOT)}):
        yield
