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
from subprocess import DEVNULL, PIPE, TimeoutExpired
from time import monotonic, sleep
from typing import IO, Any

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
    """What `subprocess.Popen` gives of a process: pid, poll, wait, kill, returncode and pipes."""

    def __init__(
        self,
        main: Main,
        arguments: list[str],
        output: IO[bytes],
        variables: Mapping[str, str] | None = None,
        *,
        has_pipes: bool = False,
    ) -> None:
        """has_pipes: to its standard input and from its standard output; output takes the rest."""
        self._reaping = threading.Lock()  # a process is reaped once, and has its id until then
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        theirs, ours = pipes() if has_pipes else ((), ())
        self.pid = os.fork()
        if self.pid == 0:
            os.environ.update(variables or {})
            for descriptor in ours:
                os.close(descriptor)
            os._exit(run_as_process(main, arguments, output.fileno(), theirs))
        for descriptor in theirs:
            os.close(descriptor)
        if ours:
            self.stdin, self.stdout = os.fdopen(ours[0], "wb"), os.fdopen(ours[1], "rb")

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
    """Stands for the module `subprocess` where workers are started: runs `main` in a fork."""

    DEVNULL = DEVNULL
    PIPE = PIPE
    TimeoutExpired = TimeoutExpired

    def __init__(self, main: Main) -> None:
        self._main = main
        self._forked: list[Forked] = []

    def end(self) -> None:
        """Kill the workers that a test has left running."""
        for worker in self._forked:
            worker.kill()
            worker.wait()

    def end_now(self) -> None:
        """Kill the workers without waiting, for a process that dies itself."""
        for worker in self._forked:
            worker.kill()

    def Popen(
        self,
        command: list[str],
        *,
        stdout: IO[bytes] | int,
        stderr: IO[bytes] | int | None = None,
        env: Mapping[str, str] | None = None,
        **_: object,
    ) -> Forked:
        """Fork for `python -m WORKER ARGUMENTS…`."""
        has_pipes = stdout == PIPE
        output: Any = stderr if has_pipes else stdout
        self._forked.append(Forked(self._main, command[3:], output, env, has_pipes=has_pipes))
        return self._forked[-1]


def pipes() -> tuple[tuple[int, int], tuple[int, int]]:
    """The ends of a process's standard input and output: its own, and those of its parent."""
    (read_in, write_in), (read_out, write_out) = os.pipe(), os.pipe()
    return (read_in, write_out), (write_in, read_out)


def run_as_process(
    main: Main, arguments: list[str], output: int, pipes: tuple[int, ...] = ()
) -> int:
    """Run `main` in a process that was just forked, in a session of its own; the exit code.

    output: descriptor for its standard output and errors. pipes: for its standard input and output
    in place of these.
    """
    os.setsid()
    if torch := sys.modules.get("torch"):
        # Threads that computed before the fork are gone; OpenMP would wait for them for ever.
        torch.set_num_threads(1)
    for place, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
        os.dup2(descriptor, place)
    for place, descriptor in enumerate(pipes):
        os.dup2(descriptor, place)
        os.close(descriptor)
    if pipes:
        sys.stdin = os.fdopen(0, closefd=False)
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
