"""A worker to which something happens at its n-th operation on the disk.

Python reports most of them to audit hooks, also those of libraries; writes, which it does not
report, are counted where this program makes them. So a moment is the same on every machine,
however fast or busy it is.
"""

import errno
import io
import os
import signal
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NoReturn
from unittest.mock import patch

from modules import worker

Kind = Literal["none", "kill", "cut", "full", "SIGTERM", "SIGHUP", "SIGINT"]
_CHANGES = frozenset({"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"})
_NEEDS_SPACE = frozenset({"open", "os.mkdir"})
_io_open, _os_write = io.open, os.write


@dataclass(frozen=True)
class Fault:
    """What happens, and before which operation, from 1.

    kind: "kill" is SIGKILL, in the middle of a write; "cut" leaves half of what was written and
    then kills, where a file or folder is about to get its name; "full" fails all that needs space
    from there on, the first write after half of it; a signal is sent.
    """

    kind: Kind = "none"
    at: int = 0


def main_with(
    fault: Fault,
    project: Path,
    body: Callable[[list[str]], int] = worker.main,
    also: Callable[[], object] = lambda: None,
    counted: str = "operations",
) -> Callable[[list[str]], int]:
    """The worker's main function, or another one, with a fault, for a process of its own.

    also: Called right before a kill. counted: The file that gets the number of operations.
    """

    def main(arguments: list[str]) -> int:
        hook = _Hook(fault, project, also)
        sys.addaudithook(hook)
        try:
            with patch.object(io, "open", hook.opened), patch.object(os, "write", hook.write):
                return body(arguments)
        finally:
            hook.is_over = True
            (project / counted).write_text(str(hook.count))

    return main


class _Hook:
    def __init__(self, fault: Fault, project: Path, also: Callable[[], object]) -> None:
        self.count = 0
        self.is_over = False
        self._fault = fault
        self._also = also
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
            source = Path(str(arguments[0]))
            self.is_over = True
            for path in (source, *source.rglob("*")):
                if path.is_file():
                    os.truncate(path, path.stat().st_size // 2)
        self._happen()

    def opened(self, path: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        """Stand for `io.open`, by which paths are opened; writing bytes is counted."""
        hook = self

        class Counted(io.FileIO):
            def write(self, data: Any) -> int:
                return hook.half_at_fault(super().write, data)

        is_plain = "b" not in mode or "r" in mode or "opener" in named
        if is_plain or not str(path).startswith(self._project):
            return _io_open(path, mode, *rest, **named)
        counted = Counted(path, mode.replace("b", ""))
        if 0 in (*rest[:1], named.get("buffering")):
            return counted
        return io.BufferedRandom(counted) if "+" in mode else io.BufferedWriter(counted)

    def write(self, descriptor: int, data: Any) -> int:
        """Stand for `os.write`, by which events are written; not to pipes."""
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return _os_write(descriptor, data)
        return self.half_at_fault(partial(_os_write, descriptor), data)

    def half_at_fault(self, write: Callable[[Any], int], data: Any) -> int:
        """Write and count it; at the fault, write half of it first."""
        if self.is_over:
            return write(data)
        self.count += 1
        kind, at = self._fault.kind, self._fault.at
        if self.count == at and kind in ("kill", "cut", "full"):
            write(memoryview(data)[: len(data) // 2])
        if kind == "full" and self.count >= at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.count == at:
            self._happen()
        return write(data)

    def _happen(self) -> None:
        if (kind := self._fault.kind) in ("kill", "cut"):
            self.is_over = True
            self._also()
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
