"""The queue: folders of runs in order, in one file that every window and terminal may change.

A queued run is a run folder with its config, which is thereby frozen; what has become of it is in
the folder, as of every run. The file says only the order, and which run has its turn.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from onetrainer.errors import UserError
from onetrainer.files.atomic import write_atomic
from onetrainer.files.locks import locked
from onetrainer.files.own_json import read_own, set_aside
from onetrainer.json_file import read_json
from onetrainer.run.device_owner import places_of
from onetrainer.run.history import RunSummary, summary
from onetrainer.run.job_folders import JOB, is_job
from onetrainer.run.run_folder import RunFolder, cannot_write
from onetrainer.run.user_folder import user_folder

Turn = Literal["waiting", "running", "over"]
_LOCK_WAIT = 5.0  # seconds; changes take milliseconds


@dataclass(frozen=True)
class Entry:
    """A run in the queue.

    Attributes:
        run: Its folder.
        turn: Whether it waits, has the device, or has had its turn.
        seconds: Forecast duration of the whole run, or of what is left of a job; 0 if unknown.
        passes: Whether it is to pause, so that another run passes.
        starts: How often it was started; more than once after a pause or a restart.
        error: Why it could not be started.
        device: The devices that it trains on, as the setting names them.
        began: When its turn began, in seconds since the epoch; 0 before.
        job: What it is if it is no run: "caption".
    """

    run: str
    turn: Turn = "waiting"
    seconds: float = 0.0
    passes: bool = False
    starts: int = 0
    error: str = ""
    device: str = "auto"
    began: float = 0.0
    job: str = ""

    @property
    def places(self) -> tuple[str, ...]:
        """What its devices are called among owners."""
        return places_of(self.device)

    @property
    def folder(self) -> RunFolder:
        """The run's folder."""
        return RunFolder(Path(self.run))


@dataclass(frozen=True)
class QueueState:
    """What the file says. is_held: No waiting run is started."""

    entries: tuple[Entry, ...] = ()
    is_held: bool = False

    @property
    def running(self) -> list[Entry]:
        """The runs that have their turn, each on devices of its own."""
        return [entry for entry in self.entries if entry.turn == "running"]

    @property
    def waiting(self) -> list[Entry]:
        """The runs that wait, in their order."""
        return [entry for entry in self.entries if entry.turn == "waiting"]

    def find(self, run: Path) -> Entry:
        """Return the entry of a run, by its folder or its name. Raises UserError."""
        path = str(run.absolute())
        found = [each for each in self.entries if path == each.run or str(run) == each.folder.name]
        if found:
            return found[0]
        known = ", ".join(each.folder.name for each in self.entries) or "none, so far"
        raise UserError(
            f"{run}: this run is not in the queue", f"Expected one of {known}", "Check the name"
        )

    def find_waiting(self, run: Path) -> Entry:
        """Return the same of a run that waits. Raises UserError."""
        entry = self.find(run)
        if entry.turn != "waiting":
            raise UserError(f"{run.name}: this run does not wait", "Expected a waiting run")
        return entry

    def with_entry(self, run: str, **changes: Any) -> "QueueState":  # noqa: ANN401 # Entry's fields
        """Return the state with another entry of a run."""
        entries = (replace(each, **changes) if each.run == run else each for each in self.entries)
        return replace(self, entries=tuple(entries))

    def with_waiting_at(self, run: str, place: int) -> "QueueState":
        """Return the state with a run, if it waits, at a place among those that wait.

        Those that had their turn come first, in the order in which they had it.
        """
        own = [each for each in self.waiting if each.run == run]
        waiting = [each for each in self.waiting if each.run != run]
        waiting[place:place] = own
        others = [each for each in self.entries if each.turn != "waiting"]
        return replace(self, entries=(*others, *waiting))


class Queue:
    """The queue in a folder; by default this user's."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or user_folder() / "queue"
        self.file = self.folder / "queue.json"
        self.serving = self.folder / "serving"

    def read(self) -> QueueState:
        """Return the queue as it is, of a damaged file what is sound; empty if there is none."""
        return read_own(self.file, QueueState, QueueState(), lost="the rest is not in the queue")

    @contextmanager
    def changing(self) -> Iterator["_Change"]:
        """Change the queue alone: set `state` within the context, and it is written after it."""
        with ExitStack() as stack:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(self.folder / "lock", wait=_LOCK_WAIT))
            except OSError as error:  # BlockingIOError: another process changes it for long
                raise cannot_write(self.folder, error) from error
            change = _Change(self.read())
            before = change.state
            yield change
            if change.state != before:
                self._write(change.state)

    def add(self, runs: Sequence[RunFolder], seconds: float = 0.0) -> None:
        """Append runs; those that had their turn wait again, and go on where they are.

        seconds: The forecast of each; 0 if unknown.
        """
        with self.changing() as change:
            new = {str(run.path): entry_of(run, seconds) for run in runs}
            kept = [e for e in change.state.entries if e.turn != "over" or e.run not in new]
            known = {entry.run for entry in kept}
            entries = (*kept, *(entry for run, entry in new.items() if run not in known))
            change.state = replace(change.state, entries=entries)

    def note_seconds(self, entry: Entry, seconds: float) -> bool:
        """Note the forecast of a run as it was read; return whether it still waits so.

        One that has moved to another device meanwhile has another speed.
        """
        with self.changing() as change:
            asked = entry.run, entry.device
            waits = any((each.run, each.device) == asked for each in change.state.waiting)
            if waits:
                change.state = change.state.with_entry(entry.run, seconds=seconds)
        return waits

    def remove(self, run: Path) -> None:
        """Take a run out that is not running; its folder stays if it has begun.

        Raises UserError if it has its turn, or is not in the queue.
        """
        with self.changing() as change:
            entry = change.state.find(run)
            if entry.turn == "running":
                raise UserError(
                    f"{run.name}: this run is running",
                    "Expected a run that waits or is over",
                    "Stop or pause it first",
                )
            entries = tuple(each for each in change.state.entries if each != entry)
            change.state = replace(change.state, entries=entries)

    def move(self, run: Path, place: int) -> None:
        """Move a waiting run to a place among the waiting ones, from 0. Raises UserError."""
        with self.changing() as change:
            entry = change.state.find_waiting(run)
            change.state = change.state.with_waiting_at(entry.run, max(0, place))

    def run_now(self, run: Path) -> None:
        """Move a waiting run to the front; one on its device pauses exactly, and goes on after it.

        Raises UserError if it does not wait.
        """
        with self.changing() as change:
            entry = change.state.find_waiting(run)
            state = change.state.with_waiting_at(entry.run, 0)
            for other in state.running:
                if {*other.places} & {*entry.places}:
                    state = state.with_entry(other.run, passes=True)
            change.state = replace(state, is_held=False)

    def hold(self, is_held: bool) -> None:
        """Start no waiting run any more, or go on."""
        with self.changing() as change:
            change.state = replace(change.state, is_held=is_held)

    def forget_past(self) -> None:
        """Take out all runs that had their turn; their folders stay."""
        with self.changing() as change:
            entries = tuple(each for each in change.state.entries if each.turn != "over")
            change.state = replace(change.state, entries=entries)

    def _write(self, state: QueueState) -> None:
        document = {
            "version": 1,
            "is_held": state.is_held,
            "entries": [asdict(entry) for entry in state.entries],
        }
        try:
            set_aside(self.file, QueueState)
            write_atomic(self.file, (json.dumps(document, indent=2) + "\n").encode())
        except OSError as error:
            raise cannot_write(self.file, error) from error


@dataclass
class _Change:
    state: QueueState


def summary_of(entry: Entry) -> RunSummary | None:
    """Return what has become of a run; None if its folder is gone."""
    try:
        return summary(entry.folder)
    except OSError:
        return None


def entry_of(run: RunFolder, seconds: float = 0.0) -> Entry:
    """Return the entry of a run or job that waits, with the devices that its config names."""
    try:
        document = read_json(run.config)
        section = document.get("hardware") or document.get("request") or {}
        device, count = str(section.get("device", "auto")), int(section.get("processes") or 0)
    except (UserError, AttributeError, TypeError, ValueError):  # which the run itself reports
        device, count = "auto", 0
    if count > 1 and device in ("auto", "cuda"):
        device = ",".join(f"cuda:{index}" for index in range(count))
    job = JOB if is_job(run) else ""
    return Entry(str(run.path), seconds=seconds, device=device, job=job)
