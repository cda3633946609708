"""Where in the program something was asked for."""

import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import FrameType

_OWN = str(Path(__file__).parent)
_ROOT = Path(__file__).parents[2]
# Stack frames of libraries and of Python are passed over, so that a line of the program is named.
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")})


def callers_place() -> str:
    """ "file:line" of the innermost line that is neither torch's, a library's nor this package's.

    The file is relative to the project's folder where it lies in it. Where only libraries are on
    the stack, the innermost of their lines that is not torch's.
    """
    frame: FrameType | None = sys._getframe(1)
    fallback = "?"
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_OWN, "<")):
            if not file.startswith(_LIBRARIES):
                return _named(file, frame.f_lineno)
            if fallback == "?" and "/torch/" not in file:
                fallback = _named(file, frame.f_lineno)
        frame = frame.f_back
    return fallback


def _named(file: str, line: int) -> str:
    return f"{_inside(file)}:{line}"


@cache
def _inside(file: str) -> str:
    path = Path(file)
    return (path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else path).as_posix()
