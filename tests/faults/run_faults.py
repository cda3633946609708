"""Faults in runs: resumed, each ends with the files and events of a run that nothing befell."""

import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from onetrainer.errors import EXIT_DONE, EXIT_STOPPED, EXIT_USER
from onetrainer.run import client
from onetrainer.run.events import Checkpoint, Stopped, Warned
from onetrainer.run.run_folder import RunFolder
from tests import runs
from tests.faults.cases import Outcome, litter, new_run, outcome
from tests.faults.faulty_worker import Fault, Kind, main_with
from tests.faults.result import Result
from tests.forked import Forking

_MOST_RESUMES = 3


class FaultyRuns:
    """Runs of one case in a project of its own."""

    def __init__(self, project: Path, case: str) -> None:
        """Make the project, and the run that nothing happens to."""
        self._project = project
        self._config = runs.write_project(project)
        self._case = case
        self._whole = folder = self._new()
        assert self._work(folder, Fault()) == EXIT_DONE, folder.log.read_text()[-2000:]
        self.expected = outcome(folder)
        self.operations = int((project / "operations").read_text())

    def campaign(self, kinds: tuple[Kind, ...], times: int, seed: int) -> Iterator[Result]:
        """Plant faults of each kind before operations drawn by a seed, none of them twice.

        times: Of each kind; every operation if there are fewer.
        """
        for kind in kinds:
            moments = random.Random(f"{seed} {self._case} {kind}")
            every = range(1, self.operations + 1)
            for at in sorted(moments.sample(every, min(times, len(every)))):
                yield self.attempt(Fault(kind, at))

    def flips(self, times: int, seed: int) -> Iterator[Result]:
        """Flip bits in the newest checkpoint, each time in another of its files."""
        draw = random.Random(f"{seed} {self._case} flips")
        newest = self._whole.complete_checkpoints()[-1][1]
        names = sorted(path.name for path in newest.iterdir())
        for number in range(times):
            folder = RunFolder(self._whole.path.with_name(f"flipped-{number}"))
            shutil.copytree(self._whole.path, folder.path)
            shutil.rmtree(folder.output)
            folder.output.mkdir()
            file = folder.checkpoints / newest.name / names[number % len(names)]
            content, at = bytearray(file.read_bytes()), draw.randrange(file.stat().st_size)
            content[at] ^= 1 << draw.randrange(8)
            file.write_bytes(content)
            problems = []
            if (code := self._work(folder, Fault())) != EXIT_DONE:
                problems.append(f"exit code {code}: {_tail(folder)}")
            elif in_order(outcome(folder)) != in_order(self.expected):
                problems.append("the files or events differ")
            if not _has_warned(folder):
                problems.append("no warning")
            yield Result("flips", self._case, f"bit at {at}", file.name, tuple(problems))

    def attempt(self, fault: Fault) -> Result:
        """Plant one fault, resume the run until it is done, and compare."""
        folder = self._new()
        code = self._work(folder, fault)
        problems = list(self._after(folder, fault, code))
        events = runs.events_of(folder)
        doing = type(events[-1]).__name__ if events else "none"
        for _ in range(_MOST_RESUMES):
            if code == EXIT_DONE:
                break
            code = self._work(folder, Fault())
        if code != EXIT_DONE:
            problems.append(f"cannot be resumed (exit code {code}): {_tail(folder)}")
        elif fault.kind == "full" and _has_warned(folder):
            pass  # a sample or a validation that failed was left out, and that was said
        elif in_order(self._outcome(folder, fault)) != in_order(self.expected):
            problems.append("the files or events differ")
        problems += [f"litter: {path}" for path in litter(self._project)]
        return Result("runs", self._case, f"{fault.kind} at {fault.at}", doing, tuple(problems))

    def _outcome(self, folder: RunFolder, fault: Fault) -> Outcome:
        found = outcome(folder)
        return without_pauses(found, self.expected) if fault.kind.startswith("SIG") else found

    def _after(self, folder: RunFolder, fault: Fault, code: int) -> Iterator[str]:
        """What is wrong right after a fault."""
        if "Traceback" in (folder.log.read_text() if folder.log.exists() else ""):
            yield f"a traceback: {_tail(folder)}"
        if fault.kind == "full" and code not in (EXIT_DONE, EXIT_USER, EXIT_STOPPED):
            yield f"exit code {code}: {_tail(folder)}"
        if fault.kind.startswith("SIG"):
            if code not in (EXIT_DONE, EXIT_STOPPED):
                yield f"exit code {code}"
            elif code == EXIT_STOPPED and folder.events.exists():
                last = runs.events_of(folder)[-1:]
                if last and not isinstance(last[0], Stopped):
                    yield f"stopped, but the last event is {last[0]}"

    def _new(self) -> RunFolder:
        return new_run(self._config, self._case)

    def _work(self, folder: RunFolder, fault: Fault) -> int:
        forking = Forking(main_with(fault, self._project))
        with patch.object(client, "subprocess", forking):
            run = client.start(folder)
        try:
            code = run.wait(runs.DEADLINE)
        finally:
            forking.end()
        assert code is not None
        return code


def _has_warned(folder: RunFolder) -> bool:
    return any(isinstance(event, Warned) for event in runs.events_of(folder))


def without_pauses(found: Outcome, expected: Outcome) -> Outcome:
    """An outcome without the checkpoints of its own that each pause has saved."""
    events = (
        one for one in found.events if one in expected.events or not isinstance(one, Checkpoint)
    )
    return replace(found, events=tuple(events))


def in_order(left: Outcome) -> Outcome:
    """An outcome with its events in the order of their steps: a resumed run makes up for some."""
    return replace(left, events=tuple(sorted(left.events, key=repr)))


def _tail(folder: RunFolder) -> str:
    return " | ".join(client.log_tail(folder.log)[-3:])
