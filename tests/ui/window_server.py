"""Windows and workers forked from one process that has loaded everything they import.

`python -m tests.ui.window_server SOCKET`: one for a session of tests, for windows and the workers
that stand in for real ones. It ends, with all that it has started, when its standard input ends.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

from onetrainer import ROOT
from onetrainer.jobs import job
from onetrainer.run import client
from tests.forked import Followed, pipes, run_as_process

_LONGEST_REQUEST = 1_000_000


class Served(Followed):
    """What `subprocess.Popen` gives of a process: pid, poll, wait, terminate, kill and pipes."""

    def __init__(self, address: str, what: str, arguments: list[str], **how: Any) -> None:
        descriptors = how.pop("descriptors")
        answer = _ask(address, {"start": what, "arguments": arguments, **how}, descriptors)
        self.pid: int = answer["pid"]
        self.stdin: Any = None
        self.stdout: Any = None
        self.stderr: Any = None
        self._address = address

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = _ask(self._address, {"poll": self.pid})["code"]
        return self.returncode


class ServedWorkers:
    """Stands for the module `subprocess` where workers are started."""

    DEVNULL = subprocess.DEVNULL
    PIPE = subprocess.PIPE
    TimeoutExpired = subprocess.TimeoutExpired

    def __init__(self, address: str) -> None:
        self._address = address

    def Popen(
        self, command: list[str], *, stdout: Any, stderr: Any = None, env: Any, **_: Any
    ) -> Served:
        """Start `python -m MODULE ARGUMENTS…`."""
        has_pipes = stdout == self.PIPE
        output = stderr if has_pipes else stdout
        theirs, ours = pipes() if has_pipes else ((), ())
        process = Served(
            self._address,
            command[2],
            command[3:],
            env=dict(env),
            descriptors=[output.fileno(), *theirs],
        )
        for descriptor in theirs:
            os.close(descriptor)
        if ours:
            process.stdin, process.stdout = os.fdopen(ours[0], "wb"), os.fdopen(ours[1], "rb")
        return process


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


def serve(address: str) -> None:
    """Fork what is asked for at a socket until the standard input ends."""
    server = _Server(address)
    Path(address).with_suffix(".ready").touch()
    server.run()


def serve_workers(arguments: list[str]) -> int:
    """Serve real workers at a socket, in a fork of a process of tests, which has loaded torch."""
    import torch

    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in [int(path.name) for path in Path("/dev/fd").iterdir()]:
        # The others' pipes would never end. Whatever holds one of them here may still close it.
        if descriptor > 2 and descriptor != nothing:
            os.dup2(nothing, descriptor, inheritable=False)
    # A process that was forked has none of the threads that its parent computed with.
    torch.set_num_threads(1)
    import_module("modules.worker")
    for name in job.REQUESTS:
        import_module(f"modules.jobs.{name}")
    serve(arguments[0])
    return 0


class _Server:
    def __init__(self, address: str) -> None:
        self._address = address
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
            os._exit(_child(request, descriptors, self._address))
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


def _child(request: dict[str, Any], descriptors: list[int], address: str) -> int:
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(os.environ["HOME"])  # where what goes to a relative path does no harm
    output, *others = descriptors
    if request["start"] != "window":
        module = import_module(request["start"])
        if module.__package__ == module.__name__:  # `python -m onetrainer`, which serves the queue
            client.subprocess = job.subprocess = ServedWorkers(address)
            module = import_module(f"{module.__name__}.__main__")
        return run_as_process(module.main, request["arguments"], output, tuple(others))
    from tests.ui import inspected_window

    main = partial(inspected_window.main, workers=request["workers"])
    return run_as_process(main, [*map(str, others), *request["arguments"]], output)


def _load() -> None:
    """Import all that windows and stand-in workers need; no window may be open in this process.

    A config is made, too, as pydantic builds its validators with the first one.
    """
    from onetrainer.presets.presets import resolve
    from tests.ui import fake_worker, inspected_window, inspection  # noqa: F401

    for wing in ("onetrainer", "ui"):
        for module in walk_packages([str(ROOT / wing)], f"{wing}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    resolve({}, source="")


if __name__ == "__main__":
    os.chdir(ROOT)
    _load()
    serve(sys.argv[1])
