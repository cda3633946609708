"""All that a list of runs says about one: its summary, settings, results, and a person's notes."""

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onetrainer.files.inside import is_inside, own_files, read_inside
from onetrainer.files.own_json import MAX_BYTES, NotOurs, parse_object
from onetrainer.run.events import Validated
from onetrainer.run.history import RunSummary, summary
from onetrainer.run.own_notes import OwnNotes, read_notes
from onetrainer.run.run_folder import RunFolder
from onetrainer.run.wire import decode_event, event_time

_FAST = 1
_VALIDATED = b'{"type": "Validated"'


@dataclass(frozen=True)
class RunRecord:
    """One run.

    Attributes:
        config: Its config as the file has it, compressed: it is the most of a record.
        began: When its first worker started, or its folder was made, in seconds since the epoch.
        best: Its validation of the lowest loss; None if there is none.
        sample: Its newest sample, small if there is a small one; None if there is none.
        version: Of the files it was read from; another one means that something has changed.
    """

    summary: RunSummary
    config: bytes
    began: float
    best: Validated | None
    sample: Path | None
    notes: OwnNotes
    version: str

    @property
    def settings(self) -> Mapping[str, Any]:
        """Its config; empty if it cannot be read."""
        try:
            return parse_object(zlib.decompressobj().decompress(self.config, MAX_BYTES + 1))
        except (NotOurs, zlib.error):
            return {}

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self.summary.path

    @property
    def name(self) -> str:
        """The name that a person gave it, or else that of its folder."""
        return self.notes.label or self.path.name


def read_record(folder: RunFolder, version: str = "") -> RunRecord:
    """Return the record of one run. Raises OSError if it is gone."""
    events = read_inside(folder.events) if is_inside(folder.events) else b""
    return RunRecord(
        summary(folder),
        zlib.compress(read_inside(folder.config, most=MAX_BYTES), _FAST),
        _began(events) or folder.config.stat().st_mtime,
        _best(events),
        _newest_sample(folder.samples),
        read_notes(folder),
        version,
    )


def version_of(folder: RunFolder) -> str:
    """Return what changes with anything that a record is read from. Raises OSError if it is gone.

    A run that is running has ended once its lock is free, which changes no file.
    """
    parts = [str(folder.is_busy())]
    for path in (folder.events, folder.config, folder.notes, folder.samples):
        try:
            status = path.stat()
        except FileNotFoundError:
            if path == folder.config:
                raise
            continue
        parts.append(f"{path.name} {status.st_mtime_ns} {status.st_size}")
    return ", ".join(parts)


def _began(events: bytes) -> float:
    """Return the time of the first event; 0 if it has none."""
    return event_time(events.partition(b"\n")[0].decode(errors="replace"))


def _best(events: bytes) -> Validated | None:
    """Return the validation with the lowest loss among those that can be compared.

    The file is searched as bytes, since a long run's has tens of thousands of other lines.
    """
    found: list[Validated] = []
    at = events.find(_VALIDATED)
    while at >= 0:
        end = events.find(b"\n", at)
        event = decode_event(events[at : end if end >= 0 else None].decode(errors="replace"))
        if isinstance(event, Validated) and event.weights == "sampling":
            # A first one starts over: those before it measured other images, or other noise.
            found = [event] if event.verdict == "first" else [*found, event]
        at = events.find(_VALIDATED, at + 1)
    finite = [event for event in found if math.isfinite(event.loss)]
    return min(finite, key=lambda event: event.loss, default=None)


def _newest_sample(folder: Path) -> Path | None:
    """Return the first prompt's sample of the newest step."""
    try:
        names = [path.name for path in own_files(folder) if path.name.startswith("step-")]
    except OSError:
        return None
    images = [name for name in names if name.endswith((".png", ".thumb.jpg"))]
    steps = {name: _step(name) for name in images}
    newest = max(steps.values(), default=0)
    # "step-000060-00.png" comes before its "step-000060-00.thumb.jpg".
    first = sorted(name for name in images if steps[name] == newest)[:2]
    small = [name for name in first if name == f"{Path(first[0]).stem}.thumb.jpg"]
    return folder / (small or first)[0] if first else None


def _step(name: str) -> int:
    number = name.split("-")[1]
    return int(number) if number.isdecimal() else -1
