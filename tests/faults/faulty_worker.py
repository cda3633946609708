"""A worker to which something happens at its n-th operation on the disk.

Python reports each of them to audit hooks, also those of libraries, so that a moment is the same
on every machine, however fast or busy it is.
"""

import errno
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

from modules import worker

Kind = Literal["none", "kill", "cut", "full", "SIGTERM", "SIGHUP", "SIGINT"]
_CHANGES = frozenset({"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"})
_NEEDS_SPACE = frozenset({"open", "os.mkdir"})


@dataclass(frozen=True)
class Fault:
    """What happens, and before which operation, from 1.

    kind: "kill" is SIGKILL; "cut" leaves half of what was written and then kills, where a file is
    about to get its name; "full" fails all that needs space from there on; a signal is sent.
    """

    kind: Kind = "none"
    at: int = 0


def main_with(fault: Fault, project: Path) -> Callable[[list[str]], int]:
    """The worker's main function with a fault, for a process of its own."""

    def main(arguments: list[str]) -> int:
        hook = _Hook(fault, project)
        sys.addaudithook(hook)
        try:
            return worker.main(arguments)
        finally:
            hook.is_over = True
            (project / "operations").write_text(str(hook.count))

    return main


class _Hook:
    def __init__(self, fault: Fault, project: Path) -> None:
        self.count = 0
        self.is_over = False
        self._fault = fault
        self._project = str(project.resolve())

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.is_over or not self._counts(event, arguments):
            return
        self.count += 1
        kind, at = self._fault.kind, self._fault.at
        if kind == "full" and self.count >= at and event in _NEEDS_SPACE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments[0]))
        if self.count != at:
            return
        if kind == "cut" and event == "os.rename":
            source = str(arguments[0])
            self.is_over = True
            if Path(source).is_file():
                os.truncate(source, Path(source).stat().st_size // 2)
        if kind in ("kill", "cut"):
            _die()
        if kind.startswith("SIG"):
            os.kill(os.getpid(), signal.Signals[kind])

    def _counts(self, event: str, arguments: tuple[object, ...]) -> bool:
        if event not in _CHANGES and not (event == "open" and _writes(arguments)):
            return False
        path = arguments[0]
        return isinstance(path, str | os.PathLike) and str(path).startswith(self._project)


def _writes(arguments: tuple[object, ...]) -> bool:
    mode, flags = arguments[1], arguments[2]
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL came too late")
