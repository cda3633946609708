"""Images that a running worker generates between two steps, as the window asks for them."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event as Flag
from time import sleep
from uuid import uuid4

from onetrainer.errors import UserError
from onetrainer.jobs.sample_request import SampleRequest
from onetrainer.run import client
from onetrainer.run.commands import ImageRequest
from onetrainer.run.device_owner import owner_of, places_of
from onetrainer.run.event_log import EventReader
from onetrainer.run.events import ENDINGS, Event, Failed, Finished, Phase, Sample, Stopped, Tried
from onetrainer.run.job_folders import is_job
from onetrainer.run.run_folder import RunFolder

_POLL_SECONDS = 0.1
_ENDED = "the run has ended"


class RunTrial:
    """A request to a run, which answers with the weights that it trains."""

    def __init__(self, folder: RunFolder) -> None:
        self._run = client.attach(folder)
        self._id = uuid4().hex
        self._is_closed = Flag()

    def events(self, request: SampleRequest) -> Iterator[Event]:
        """Send the request, and yield what becomes of it as a job's events; the last is an ending.

        Raises:
            UserError: If the command cannot be written.
        """
        reader = EventReader(self._run.folder.events)
        reader.skip()
        body = request.model_dump(mode="json", exclude_unset=True)
        self._run.send("sample", ImageRequest(self._id, body))
        paths: list[str] = []
        while not self._is_closed.is_set():
            is_alive = self._run.is_alive
            news = reader.read()
            for event in news.events:
                match event:
                    case Tried(request=asked) if asked == self._id:
                        paths += [event.path] if event.path else []
                        yield _as_job_event(event, paths)
                        if event.place < 0:
                            return
                    case Phase(name="sampling"):
                        yield event
                    case _ if isinstance(event, ENDINGS):
                        yield Stopped(0, "stop", because=_ENDED)
                        return
            if not is_alive and not news.events:
                yield Stopped(0, "stop", because=_ENDED)
                return
            sleep(_POLL_SECONDS)

    def cancel(self) -> None:
        """Ask to end the request, also one that still waits; what it has made is kept."""
        self._run.send("cancel", canceled=self._id)

    def close(self) -> None:
        """Ask for nothing more, as nobody waits for it."""
        self._is_closed.set()
        with suppress(UserError):
            self.cancel()


def run_on(device: str) -> RunFolder | None:
    """Return the run that trains on a device; None if none does, or something else uses it."""
    owner = owner_of(places_of(device))
    folder = RunFolder(Path(owner.run)) if owner is not None and owner.run else None
    return None if folder is None or is_job(folder) else folder


def _as_job_event(event: Tried, paths: list[str]) -> Event:
    if event.place >= 0:
        return Sample(0, event.place, event.path, event.prompt, event.seed)
    if event.error:
        return Failed("user", event.error)
    return Finished(0, [*paths])
