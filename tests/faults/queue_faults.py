"""Kills of the queue: its runs and jobs go on, none is lost, started twice, or left in halves.

Real processes: one serves the queue and starts the workers. It dies before an operation of its own
or with its worker before one of that, alone or with everything else, as when the computer is
switched off; a pause that lets another run pass may be under way. Then the next one serves.
"""

import os
import random
import signal
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from modules import worker
from onetrainer.errors import EXIT_DONE, UserError
from onetrainer.queue import serve
from onetrainer.queue.queue import Queue
from onetrainer.run import client
from onetrainer.run.history import summary
from onetrainer.run.run_folder import RunFolder
from tests import runs
from tests.faults.cases import Outcome, litter, new_run, outcome
from tests.faults.faulty_worker import Fault, main_with
from tests.faults.result import Result
from tests.faults.run_faults import in_order, without_pauses
from tests.forked import Forked, Forking, Main
from tests.own_user import user_variables

_CASE = "lora-accumulation"
_SERVER_OPERATIONS = 16
"""Of a server about as many as until its first run is over."""
_BEGIN_SECONDS = 5.0
_LEAST_WAITING = 2
_MOST_FILES = 256


@dataclass(frozen=True)
class QueuedWork:
    """What waits in the queue.

    new: Makes the folder of another one. outcome: What it has left at its end. is_same: Whether
    that is what one has left that nothing befell. damage: What is wrong in it at any time.
    dies_alone: Whether workers also die while the server lives; it is added to the queue again.
    """

    case: str
    new: Callable[[], RunFolder]
    outcome: Callable[[RunFolder], Any]
    is_same: Callable[[Any, Any], bool]
    damage: Callable[[RunFolder], Iterator[str]] = lambda _: iter(())
    dies_alone: bool = False


def training(project: Path) -> QueuedWork:
    """Runs, each of which trains."""
    config = runs.write_project(project)

    def is_same(found: Outcome, expected: Outcome) -> bool:
        return in_order(without_pauses(found, expected)) == in_order(expected)

    return QueuedWork(_CASE, lambda: new_run(config, _CASE), outcome, is_same)


@dataclass(frozen=True)
class Moment:
    """When what is killed.

    own, of_worker: Faults of the server, and of the workers that it starts. has_all: Whether all
    workers die with it. at_start: Whether it dies as it has started a worker. spares_server:
    Whether it lives on when a worker dies.
    """

    text: str = "nothing is killed"
    own: Fault = Fault()  # noqa: RUF009 # it never changes
    has_all: bool = False
    of_worker: Fault = Fault()  # noqa: RUF009
    at_start: bool = False
    spares_server: bool = False


class _Starting(Forking):
    """Starts workers; the process may die with the first of them on its way."""

    def __init__(self, main: Main, kill_all: Callable[[], None] | None, at_start: bool) -> None:
        super().__init__(main)
        self._kill_all, self._at_start = kill_all, at_start

    def Popen(self, command: list[str], **how: Any) -> Forked:
        started = super().Popen(command, **how)
        if self._at_start:
            self.kill_others()
            _kill(os.getpid())
        return started

    def kill_others(self) -> None:
        if self._kill_all is not None:
            self.end_now()
            self._kill_all()


class KilledQueue:
    """A queue in a project of its own."""

    def __init__(self, project: Path, work: Callable[[Path], QueuedWork] = training) -> None:
        """Make the project, and the run that nothing happens to."""
        self._project = project
        self._queued = work(project)
        self.queue = Queue(project / "user" / "queue")
        self._doubles = project / "doubles"
        self._log = project / "serve.log"
        self._folders: list[RunFolder] = []
        self._straight = self._add()
        assert self._serve(Moment()) == EXIT_DONE, self._log.read_text()[-2000:]
        self.expected = self._queued.outcome(self._straight)
        self.operations = int((project / "operations").read_text())

    def campaign(self, times: int, seed: int) -> Iterator[Result]:
        """Kill the queue before operations drawn by a seed, and serve it to its end."""
        draw = random.Random(f"{seed} queue")
        for number in range(times):
            waiting = self.queue.read().waiting
            for _ in range(_LEAST_WAITING - len(waiting)):
                self._add()
            if draw.random() < 0.3:
                self.queue.run_now(self.queue.read().waiting[-1].folder.path)
            moment = self._moment(draw)
            code = self._serve(moment)
            problems = [*self._after(code)]
            if moment.spares_server:
                self._add_again()
            yield Result(
                "queue", self._queued.case, f"kill {number + 1}", moment.text, tuple(problems)
            )
        code = self._serve(Moment())
        yield Result(
            "queue", self._queued.case, "none", "nothing is killed", tuple(self._end(code))
        )

    def _moment(self, draw: random.Random) -> Moment:
        places = ("server", "start", "worker", "alone" if self._queued.dies_alone else "worker")
        place, has_all = draw.choice(places), draw.random() < 0.5
        whom = "with all workers" if has_all else "alone"
        match place:
            case "server":
                own = Fault("kill", draw.randint(1, _SERVER_OPERATIONS))
                return Moment(f"the server {whom}, before its operation {own.at}", own, has_all)
            case "start":
                text = f"the server {whom}, as it has started a worker"
                return Moment(text, has_all=has_all, at_start=True)
        fault = Fault("kill", draw.randint(1, self.operations))
        if place == "alone":
            text = f"each worker alone, before its operation {fault.at}"
            return Moment(text, of_worker=fault, spares_server=True)
        return Moment(f"a worker and the server, before its operation {fault.at}", of_worker=fault)

    def _add(self) -> RunFolder:
        self._folders.append(self._queued.new())
        self.queue.add([self._folders[-1]])
        return self._folders[-1]

    def _add_again(self) -> None:
        """Add what a dead worker has left, as a person does."""
        over = [each.folder for each in self.queue.read().entries if each.turn == "over"]
        self.queue.add([folder for folder in over if summary(folder).standing != "finished"])

    def _serve(self, moment: Moment) -> int:
        """Serve the queue in a process; the exit code."""
        also = (lambda: None) if moment.spares_server else self._kill_server
        work = main_with(moment.of_worker, self._project, self._work, also)
        forking = _Starting(work, self._kill_all if moment.has_all else None, moment.at_start)

        def serve_all(_: list[str]) -> int:
            with (
                patch.object(client, "subprocess", forking),
                patch.object(serve, "BEGIN_SECONDS", _BEGIN_SECONDS),
                patch.object(serve, "POLL_SECONDS", 0.02),
            ):
                serve.serve(self.queue, print, keeps=False)
            return EXIT_DONE

        main = main_with(moment.own, self._project, serve_all, forking.kill_others, "of the server")
        home = user_variables(self._project / "user-config")
        with self._log.open("ab") as log:
            code = Forked(main, [], log, home).wait(runs.DEADLINE)
        if code != EXIT_DONE and (moment.has_all or moment.of_worker.at):
            # Where a computer is switched off, all die at once; here the last one dies later.
            runs.wait_until(lambda: not any(folder.is_busy() for folder in self._folders))
        return code

    def _kill_all(self) -> None:
        """Kill the workers, also those that an earlier server has started."""
        for folder in self._folders:
            if (pid := folder.worker_pid()) is not None:
                _kill(pid)

    def _work(self, arguments: list[str]) -> int:
        """Do as a worker does, and note whether that is once too often."""
        _leave_files()
        folder = RunFolder(Path(arguments[0]))
        if folder.is_busy() or summary(folder).standing == "finished":
            with self._doubles.open("a") as doubles:
                doubles.write(f"{folder.name}\n")
        return worker.main(arguments)

    def _kill_server(self) -> None:
        _kill(int(self.queue.serving.read_bytes()[1:]))

    def _after(self, code: int) -> Iterator[str]:
        """What is wrong right after a kill."""
        if code not in (EXIT_DONE, -signal.SIGKILL):
            yield f"exit code {code}: {self._log.read_text()[-500:]}"
        try:
            found = Counter(entry.run for entry in self.queue.read().entries)
        except UserError as error:
            yield f"the queue cannot be read: {error}"
            return
        for folder in self._folders:
            if found[str(folder.path)] != 1:
                yield f"{folder.name} is in the queue {found[str(folder.path)]} times"
        for folder in self._folders:
            yield from self._queued.damage(folder)
        if self._doubles.exists():
            yield f"started twice: {self._doubles.read_text().split()}"
        if "Traceback" in self._log.read_text():
            yield f"a traceback: {self._log.read_text()[-500:]}"

    def _end(self, code: int) -> Iterator[str]:
        """What is wrong after the queue was served to its end."""
        yield from self._after(code)
        if code != EXIT_DONE:
            yield "the queue does not come to its end"
        for entry in self.queue.read().entries:
            run = summary(entry.folder)
            if (entry.turn, run.standing) != ("over", "finished"):
                yield f"{entry.folder.name}: {entry.turn}, {run.standing} {entry.error}"
            elif not self._queued.is_same(self._queued.outcome(entry.folder), self.expected):
                yield f"{entry.folder.name}: the files or events differ"
        yield from (f"litter: {path}" for path in litter(self._project))


def _leave_files() -> None:
    """Let go of the files of the server, whose locks are to end with it, as `subprocess` does.

    Their numbers stay taken, so that objects which are dropped later close nothing else.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3, _MOST_FILES):
        with suppress(OSError):
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.dup2(nothing, descriptor)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
