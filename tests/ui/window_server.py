"""Windows and stand-in workers forked from one process that has loaded everything they import.

`python -m tests.ui.window_server SOCKET`: one for a session of tests. It ends, with all that it has
started, when its standard input ends.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from onetrainer import ROOT
from tests.forked import Followed

_LONGEST_REQUEST = 1_000_000


class Served(Followed):
    """What `subprocess.Popen` gives of a process: pid, poll, wait, terminate, kill, stderr."""

    def __init__(self, address: str, what: str, arguments: list[str], **how: Any) -> None:
        descriptors = how.pop("descriptors")
        answer = _ask(address, {"start": what, "arguments": arguments, **how}, descriptors)
        self.pid: int = answer["pid"]
        self.stderr: Any = None
        self._address = address

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = _ask(self._address, {"poll": self.pid})["code"]
        return self.returncode


class ServedWorkers:
    """Stands for the module `subprocess` in `onetrainer.run.client` of a window."""

    DEVNULL = subprocess.DEVNULL

    def __init__(self, address: str) -> None:
        self._address = address

    def Popen(self, command: list[str], *, stdout: Any, env: Any, **_: Any) -> Served:
        """Start `python -m WORKER ARGUMENTS…`."""
        descriptors = [stdout.fileno()]
        return Served(
            self._address, command[2], command[3:], env=dict(env), descriptors=descriptors
        )


def end_all(address: str) -> None:
    """Kill every process that the server has started and that still runs."""
    _ask(address, {"end": True})


def _ask(address: str, request: dict[str, Any], descriptors: list[int] | None = None) -> Any:
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(address)
        body = json.dumps(request).encode() + b"\n"
        socket.send_fds(channel, [body[:1]], descriptors or [])
        channel.sendall(body[1:])
        return json.loads(channel.makefile().readline())


class _Server:
    def __init__(self, address: str) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(address)
        self._listening.listen(64)
        self._running: set[int] = set()
        self._codes: dict[int, int] = {}

    def run(self) -> None:
        while True:
            ready, _, _ = select.select([self._listening, sys.stdin], [], [])
            if sys.stdin in ready:
                self._end_all()
                return
            connection, _ = self._listening.accept()
            # The test's process may be gone in the middle of its question.
            with connection, suppress(OSError, ValueError):
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        data, descriptors, _, _ = socket.recv_fds(connection, 1, 4)
        with connection.makefile() as lines:
            request = json.loads(data.decode() + lines.readline(_LONGEST_REQUEST))
        if "start" in request:
            answer: dict[str, Any] = {"pid": self._fork(request, descriptors, connection)}
        elif "poll" in request:
            answer = {"code": self._code(request["poll"])}
        else:
            self._end_all()
            answer = {}
        connection.sendall(json.dumps(answer).encode() + b"\n")

    def _fork(self, request: Any, descriptors: list[int], connection: socket.socket) -> int:
        pid = os.fork()
        if pid == 0:
            connection.close()
            self._listening.close()
            os._exit(_child(request, descriptors))
        for descriptor in descriptors:
            os.close(descriptor)
        self._running.add(pid)
        return pid

    def _code(self, pid: int) -> int | None:
        if pid in self._running:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._running.discard(pid)
                self._codes[pid] = os.waitstatus_to_exitcode(status)
        return self._codes.get(pid)

    def _end_all(self) -> None:
        for pid in list(self._running):
            if self._code(pid) is None:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                self._running.discard(pid)
                self._codes[pid] = -signal.SIGKILL


def _child(request: dict[str, Any], descriptors: list[int]) -> int:
    os.setsid()
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(os.environ["HOME"])  # where what goes to a relative path does no harm
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    output = descriptors[0]
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    arguments = request["arguments"]
    try:
        if request["start"] == "window":
            from tests.ui import inspected_window

            inspected_window.main([str(descriptors[1]), *arguments], server=request["server"])
            return 0
        from tests.ui import fake_worker

        return int(fake_worker.main(arguments) or 0)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:  # noqa: BLE001  # the process ends here, and says of what
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _load() -> None:
    """Import what windows and workers need; no window may be open in this process."""

    import ui.app  # noqa: F401


if __name__ == "__main__":
    os.chdir(ROOT)
    _load()
    server = _Server(sys.argv[1])
    Path(sys.argv[1]).with_suffix(".ready").touch()
    server.run()
