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

ROOT = Path(__file__).resolve().parents[1]
"""The project folder: the packages and `configs/`."""
