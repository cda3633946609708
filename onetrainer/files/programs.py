"""Programs of the system, found without looking at the folder that a person stands in."""

import shutil
from pathlib import Path


def find_program(name: str) -> str:
    """Return the absolute path of an installed program; "" if there is none.

    A PATH with an empty or relative entry leads into the current folder: what is there is not run.
    """
    path = shutil.which(name)
    return path if path is not None and Path(path).is_absolute() else ""
