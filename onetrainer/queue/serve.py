"""Serving of the queue: on each device one run after the other has its turn."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import sleep, time

from onetrainer.errors import UserError
from onetrainer.files.locks import locked, try_lock, unlock
from onetrainer.queue.queue import Entry, Queue, QueueState, summary_of
from onetrainer.run import client
from onetrainer.run.client import Run
from onetrainer.run.device_owner import Owner, owner_of
from onetrainer.run.run_folder import cannot_write

POLL_SECONDS = 0.5
_LOCK_WAIT = 0.5
"""Seconds: a window that asks `is_served` holds the lock for a moment; it does not serve."""
MOST_STARTS = 20
"""A run that ends the server with it, again and again, is not resumed for ever."""
BEGIN_SECONDS = 60.0
"""A worker needs less, even of a slow disk, until its folder is locked."""


class Server:
    """Gives each device to one run of the queue at a time.

    report: Called with a sentence about what happens.
    """

    def __init__(self, queue: Queue, report: Callable[[str], object]) -> None:
        self._queue = queue
        self._report = report
        self._runs: dict[str, Run] = {}
        self._asked_to_pass: set[str] = set()
        self._waited_for: set[Owner] = set()

    def poll(self) -> bool:
        """Do what is to be done now; return whether a run is running or waits for its turn."""
        for entry in self._queue.read().running:
            if self._is_alive(entry):
                self._let_pass(entry)
            else:
                self._end(entry)
        state = self._queue.read()
        if not state.is_held:
            self._start_free(state)
        return bool(state.waiting or state.running)

    def _is_alive(self, entry: Entry) -> bool:
        run = self._runs.get(entry.run)
        if run is not None and run.is_alive:
            return True
        if entry.folder.is_busy():
            self._runs[entry.run] = client.attach(entry.folder)  # an earlier server has started it
            return True
        return run is None and _may_arrive(entry)  # one that was killed as it started it

    def _let_pass(self, entry: Entry) -> None:
        """Ask a running run to pause if another one is to pass."""
        run = self._runs.get(entry.run)  # None while its worker is on its way
        if run is not None and entry.passes and entry.run not in self._asked_to_pass:
            self._asked_to_pass.add(entry.run)
            try:
                run.send("pause")
            except UserError as error:
                self._report(f"{entry.folder.name} cannot be asked to pause: {error}")
                return
            self._report(f"{entry.folder.name} pauses to let another run pass.")

    def _end(self, entry: Entry) -> None:
        """Note how the turn of a run ended: it is over, or the run waits for another one."""
        was_watched = self._runs.pop(entry.run, None) is not None
        self._asked_to_pass.discard(entry.run)
        run = summary_of(entry)
        standing = run.standing if run is not None else "its folder is gone"
        let_pass = entry.passes and standing == "paused"
        # The computer or this program ended with it, maybe before it reported anything: it goes
        # on from its newest checkpoint.
        was_cut = run is not None and not (was_watched or _has_ended(entry))
        goes_on = let_pass or (was_cut and entry.starts < MOST_STARTS)
        with self._queue.changing() as change:
            turn = "waiting" if goes_on else "over"
            error = standing if run is None else ""
            state = change.state.with_entry(entry.run, turn=turn, passes=False, error=error)
            change.state = state.with_waiting_at(entry.run, 1 if let_pass else 0)
        self._report(f"{entry.folder.name}: {standing}.")

    def _start_free(self, state: QueueState) -> None:
        """Start the first run that waits for each device, if that is free."""
        taken = {place for entry in state.running for place in entry.places}
        owners = set[Owner]()
        for entry in state.waiting:
            # An earlier run's device is not taken from it by a later one.
            is_free, taken = taken.isdisjoint(entry.places), taken | {*entry.places}
            other = owner_of(entry.places) if is_free else None
            if other is not None and not other.yields:
                owners.add(other)
            elif is_free:
                self._start(entry)
        for owner in owners - self._waited_for:
            self._report(f"{owner.name} uses the device; the queue waits for it.")
        self._waited_for = owners

    def _start(self, entry: Entry) -> None:
        if not self._give_turn(entry):
            return
        try:
            self._runs[entry.run] = client.start(entry.folder)
            self._report(f"{entry.folder.name} starts.")
        except UserError as refused:
            if entry.folder.is_busy():
                self._runs[entry.run] = client.attach(entry.folder)
                self._report(f"{entry.folder.name} is running already.")
                return
            with self._queue.changing() as change:
                change.state = change.state.with_entry(entry.run, turn="over", error=str(refused))
            self._report(str(refused))

    def _give_turn(self, entry: Entry) -> bool:
        """Note that a run has its turn, before it starts; return False if it no longer waits.

        Whatever ends this process afterwards, the next server knows of the run.
        """
        with self._queue.changing() as change:
            state = change.state
            if state.is_held or entry.run not in [each.run for each in state.waiting]:
                return False
            change.state = state.with_entry(
                entry.run,
                turn="running",
                starts=entry.starts + 1,
                error="",
                began=round(time(), 3),  # as the times of events are
            )
        return True


def _may_arrive(entry: Entry) -> bool:
    """Return whether the worker of a turn may still be on its way to the lock of its folder."""
    if not 0 <= time() - entry.began < BEGIN_SECONDS:
        return False
    try:
        return entry.folder.lock.stat().st_mtime < entry.began
    except OSError:
        return entry.folder.path.exists()


def _has_ended(entry: Entry) -> bool:
    """Return whether a run has reported its end since its turn began; an earlier end is none."""
    run = summary_of(entry)
    return run is not None and 0 < run.ended >= entry.began


@contextmanager
def serving(queue: Queue, report: Callable[[str], object]) -> Iterator[Server]:
    """Serve a queue, which no other process does at the same time. Raises UserError if one does.

    report: Called with a sentence about what happens.
    """
    queue.folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(queue.serving, wait=_LOCK_WAIT) as handle:
            handle.seek(1)
            handle.write(str(os.getpid()).encode())
            handle.truncate()
            handle.flush()
            yield Server(queue, report)
    except BlockingIOError as error:
        raise UserError(
            "the queue is served already",
            "One process serves it at a time",
            "Nothing is to be done: runs that are added have their turn",
        ) from error


def is_served(queue: Queue) -> bool:
    """Return whether a process serves the queue."""
    if not queue.serving.exists():
        return False
    with queue.serving.open("rb") as handle:
        if not try_lock(handle, shared=True):
            return True
        unlock(handle)
    return False


def start_server(queue: Queue) -> None:
    """Start a process that serves the queue until no run waits; none if there is one.

    It outlives this process, the window or terminal. Raises UserError if it cannot be started.
    """
    if is_served(queue):
        return
    try:
        queue.folder.mkdir(parents=True, exist_ok=True)
        with (queue.folder / "serve.log").open("wb") as log:
            client.start_detached("onetrainer", "queue", "serve", log=log)
    except OSError as error:
        raise cannot_write(queue.folder, error) from error


def serve(queue: Queue, report: Callable[[str], object], *, keeps: bool) -> None:
    """Serve the queue until no run waits, or for ever.

    Runs are processes of their own: they go on if this one ends, and the next server follows them.

    keeps: Also wait for runs that are added later.

    Raises UserError if another process serves it.
    """
    with serving(queue, report) as server:
        while server.poll() or keeps:
            sleep(POLL_SECONDS)
