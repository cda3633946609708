"""A captioning job that runs now or waits in the queue, as its page follows it. No Tk."""

from dataclasses import dataclass

from onetrainer.captioning.results import JobFolder
from onetrainer.errors import UserError
from onetrainer.queue.queue import Queue
from onetrainer.queue.serve import is_served, start_server
from onetrainer.run import client
from onetrainer.run.client import Run
from onetrainer.run.events import Event, Failed, Finished, Phase, Stopped
from onetrainer.run.run_folder import RunFolder
from ui.background.worker_exit import WorkerExitSearch


@dataclass(frozen=True)
class Standing:
    """How far a job is. text: What it does. share: From 0 to 1. error: Why it has failed."""

    text: str
    share: float = 0.0
    has_ended: bool = False
    error: UserError | None = None


class CaptioningRun:
    """A job and its worker."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._standing = Standing("Starting …")
        self._exit_search: WorkerExitSearch | None = None

    @property
    def folder(self) -> RunFolder:
        """The job's folder."""
        return self._run.folder

    def poll(self) -> Standing:
        """Return how far it is, without waiting."""
        is_alive = self._run.is_alive  # first: all that it wrote before its end is read then
        for event in self._run.poll().events:
            self._standing = _after(event, self._standing)
        if self._standing.has_ended or is_alive:
            self._exit_search = None
            return self._standing
        if is_queued(self.folder):
            waits = "Waits for its turn in the queue."
            return Standing(waits if is_served(Queue()) else f"{waits} Start it on Queue.")
        self._exit_search = self._exit_search or WorkerExitSearch(self._run)
        if not self._exit_search.is_done:
            return self._standing
        ending, self._exit_search = self._exit_search.found, None
        if ending is None:
            return self._standing
        return Standing("", has_ended=True, error=UserError(ending.what, "", _tail(ending.log)))

    def stop(self) -> None:
        """End it, or take it out of the queue; what it has found stays."""
        if self._run.is_alive:
            self._run.send("stop")
        elif is_queued(self.folder):
            Queue().remove(self.folder.path)
            self._standing = Standing("Taken out of the queue.", has_ended=True)


def start_now(job: JobFolder) -> CaptioningRun:
    """Start a job; it waits by itself until its device is free. Raises UserError."""
    return CaptioningRun(client.start(job.write_request()))


def enqueue(job: JobFolder) -> CaptioningRun:
    """Add a job to the queue, which is started unless other runs wait in it. Raises UserError."""
    folder, queue = job.write_request(), Queue()
    before = folder.events.stat().st_ino if folder.events.exists() else 0
    queue.add([folder])
    if len(queue.read().waiting) == 1:
        start_server(queue)
    return CaptioningRun(Run(folder, not_file=before))


def find_running(job: JobFolder) -> CaptioningRun | None:
    """Return a job that is running or waits; None if it does neither."""
    folder = RunFolder(job.path)
    is_there = folder.is_busy() or is_queued(folder)
    return CaptioningRun(client.attach(folder)) if is_there else None


def is_queued(folder: RunFolder) -> bool:
    """Return whether a job waits in the queue or has its turn."""
    entries = Queue().read().entries
    return any(each.run == str(folder.path) and each.turn != "over" for each in entries)


def _after(event: Event, before: Standing) -> Standing:
    match event:
        case Phase(name="captioning"):
            share = event.done / event.total if event.total else 0.0
            return Standing(f"{event.done:,} of {event.total:,} images are described.", share)
        case Phase(name="waiting"):
            return Standing(f"Waiting: {event.detail}.")
        case Phase():
            return Standing(f"Loading: {event.detail} …" if event.detail else "Loading …")
        case Finished():
            return Standing(" ".join(event.summary), 1.0, has_ended=True)
        case Stopped():
            return Standing("Stopped. What was found so far stays.", has_ended=True)
        case Failed():
            error = UserError(event.what, event.expected, event.remedy)
            return Standing("", has_ended=True, error=error)
    return before


def _tail(log: list[str]) -> str:
    return log[-1] if log else ""
