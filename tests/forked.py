"""Workers forked from the test's own process, which has torch and everything else loaded.

They are processes of their own, to be killed and followed as others are, and begin in hundredths
of a second in place of five.
"""

import os
import signal
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from subprocess import DEVNULL, TimeoutExpired
from time import monotonic, sleep
from typing import IO

Main = Callable[[list[str]], int]


class Followed(ABC):
    """A process as `subprocess.Popen` offers it; subclasses implement `poll`."""

    pid: int
    returncode: int | None = None

    @abstractmethod
    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        deadline = monotonic() + timeout if timeout is not None else float("inf")
        while (code := self.poll()) is None:
            if monotonic() > deadline:
                raise TimeoutExpired("worker", timeout or 0.0)
            sleep(0.005)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forked(Followed):
    """What `subprocess.Popen` gives of a process: pid, poll, wait, kill and returncode."""

    def __init__(
        self,
        main: Main,
        arguments: list[str],
        output: IO[bytes],
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._reaping = threading.Lock()  # a process is reaped once, and has its id until then
        self.pid = os.fork()
        if self.pid == 0:
            os.environ.update(variables or {})
            os._exit(_run(main, arguments, output))

    def poll(self) -> int | None:
        with self._reaping:
            return self._reaped()

    def send_signal(self, number: int) -> None:
        with self._reaping:
            if self._reaped() is None:
                os.kill(self.pid, number)

    def _reaped(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class Forking:
    """Stands for the module `subprocess` in `onetrainer.run.client`: runs `main` in a fork."""

    DEVNULL = DEVNULL
    TimeoutExpired = TimeoutExpired

    def __init__(self, main: Main) -> None:
        self._main = main
        self._forked: list[Forked] = []

    def end(self) -> None:
        """Kill the workers that a test has left running."""
        for worker in self._forked:
            worker.kill()
            worker.wait()

    def Popen(
        self,
        command: list[str],
        *,
        stdout: IO[bytes],
        env: Mapping[str, str] | None = None,
        **_: object,
    ) -> Forked:
        """Fork for `python -m WORKER ARGUMENTS…`."""
        self._forked.append(Forked(self._main, command[3:], stdout, env))
        return self._forked[-1]


def _run(main: Main, arguments: list[str], output: IO[bytes]) -> int:
    os.setsid()
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    try:
        return main(arguments)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:  # noqa: BLE001  # the process ends here, and says of what
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
