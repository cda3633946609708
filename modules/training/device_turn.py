"""A worker's turn on its device, and what it reports before it begins to load."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from modules.training.inbox import Inbox
from modules.world.launch import place_in
from onetrainer.errors import UserError
from onetrainer.files.inside import is_inside, read_inside
from onetrainer.json_file import read_json
from onetrainer.run.commands import Leaving
from onetrainer.run.device_owner import Owner, owning, places_of
from onetrainer.run.event_log import EventWriter, rewind
from onetrainer.run.events import Phase, Started, Stopped
from onetrainer.run.run_folder import RunFolder


@contextmanager
def owning_device(folder: RunFolder, inbox: Inbox) -> Iterator[None]:
    """Own a run's device, after waiting until it is free; a command ends the wait.

    Not if the run is to share it, nor among processes that another program has started, which wait
    for each other.
    """
    hardware = _section(folder, "hardware") or _section(folder, "request")
    with ExitStack() as stack:
        if not hardware.get("share_device") and place_in(os.environ).size == 1:
            places = places_of(str(hardware.get("device", "auto")), hardware.get("processes") or 0)
            owner = Owner(folder.name, str(folder.path))
            try:
                with inbox.while_loading():
                    stack.enter_context(
                        owning(places, owner, on_wait=lambda other: _report_wait(folder, other))
                    )
            except OSError as error:  # where the user's folder cannot be written
                sys.stderr.write(f"the device is used without asking for it: {error}\n")
        yield


def report_early_end(folder: RunFolder, reason: Leaving) -> None:
    """Report the end of a run that has written nothing yet; what it was before stays."""
    with _early_events(folder) as events:
        events.write(Stopped(folder.newest_step(), reason))


def _report_wait(folder: RunFolder, other: Owner) -> None:
    with _early_events(folder) as events:
        events.write(Phase("waiting", detail=f"{other.name} uses the device"))


@contextmanager
def _early_events(folder: RunFolder) -> Iterator[EventWriter]:
    """Yield a writer of a new worker's events after those of the one before."""
    step = folder.newest_step()
    total = _section(folder, "training").get("steps", step)
    # They are in a new file, by which readers know a new worker.
    known = read_inside(folder.events) if is_inside(folder.events) else b""
    rewind(folder.events, known.rfind(b"\n") + 1)
    with closing(EventWriter(folder.events)) as events:
        events.write(Started(os.getpid(), step, total if isinstance(total, int) else 0))
        yield events


def _section(folder: RunFolder, key: str) -> Mapping[str, Any]:
    """Return a section of the config; empty if there is none, which the run itself reports."""
    try:
        section = read_json(folder.config).get(key)
    except UserError:
        return {}
    return section if isinstance(section, dict) else {}
