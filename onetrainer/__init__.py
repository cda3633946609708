"""Configuration, datasets, run folders and the command line: plain Python, no torch, no tkinter."""

import os
import sys

# Before any other import: `python -m onetrainer` (or `-m ui`) searches the current folder first,
# and a `json.py` that lies there would be run in place of Python's own.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    _current, _program = map(os.path.realpath, (sys.path[0], os.path.dirname(__path__[0])))  # noqa: PTH120
    if _current != _program:
        del sys.path[0]

from pathlib import Path

__version__ = "0.1.0"

_BUNDLED = Path(__file__).resolve().parent / "bundled"
IS_PACKAGE = _BUNDLED.is_dir()
"""Whether this was installed from a wheel; otherwise it is a checkout of the project."""
ROOT = _BUNDLED if IS_PACKAGE else _BUNDLED.parents[1]
"""The folder of `modules/`, `ui/` and `configs/`: the project's, or of what a wheel has of it."""


def program() -> str:
    """Return how a terminal calls this program from any folder: by its name if it finds that."""
    from shutil import which

    own = Path(sys.executable).with_name("onetrainer")
    found = which(own.name, path=str(own.parent))
    if found is None:
        return f'"{sys.executable}" -m onetrainer'
    named = which(own.name)
    if named is not None and Path(named).is_absolute() and Path(named).samefile(found):
        return own.name
    return f'"{own}"' if " " in str(own) else str(own)


def install_command(extra: str = "") -> str:
    """Return the command that installs what is missing; of a checkout, to be run in its folder."""
    if IS_PACKAGE:  # pip reads the requirements of what is installed, asking no index for them
        name = f"onetrainer[{extra}]" if extra else "onetrainer"
        return f'"{sys.executable}" -m pip install "{name}"'
    python = "python" if sys.platform == "win32" else "python3"
    return f"{python} start-ui.py --setup-only" + (f" --extra {extra}" if extra else "")
