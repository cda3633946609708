"""The runs in a folder and the state of each, read from the end of its events."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from onetrainer.files.inside import is_inside, open_inside
from onetrainer.files.lines import split_lines
from onetrainer.run.events import (
    Evaluated,
    Event,
    Failed,
    Finished,
    Phase,
    Progress,
    Rewarded,
    Started,
    Stopped,
)
from onetrainer.run.run_folder import RunFolder
from onetrainer.run.wire import decode_event, event_time

RunStatus = Literal[
    "running",
    "finished",
    "ended early",
    "stopped by the guard",
    "stopped",
    "paused",
    "failed",
    "broken off",
    "not begun",
]

# The last events show how a run ended; a long run's file has megabytes before them.
_TAIL_BYTES = 64 * 1024
# How the lines of steps begin.
_REWARDED = '{"type": "Rewarded"'
_STEPS = ('{"type": "Progress"', _REWARDED)


@dataclass(frozen=True)
class RunSummary:
    """A summary of one run.

    standing: Its state. loss, reward: The last ones; None before the first step, and where nothing
    is rewarded. changed: When its events last grew, in seconds since the epoch. eta_seconds: Until
    the end, as of the last step; -1 while unknown. ended: When it reported its end; 0 if it has
    begun again since, or reported none.
    """

    path: Path
    standing: RunStatus
    step: int
    total_steps: int
    loss: float | None
    changed: float
    reward: float | None = None
    eta_seconds: float = -1.0
    ended: float = 0.0

    @property
    def name(self) -> str:
        """The run's name, which is that of its folder."""
        return self.path.name


def run_folders(*parents: Path) -> list[RunFolder]:
    """Return all runs in some folders, the latest of each first; none of a missing folder."""
    folders: list[Path] = []
    for parent in dict.fromkeys(parents):
        with suppress(OSError):
            inside = [path for path in parent.iterdir() if is_inside(path / "config.json")]
            folders += sorted(inside, key=_changed, reverse=True)
    return [RunFolder(path) for path in folders]


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # it was deleted a moment ago
        return 0.0


def summary(folder: RunFolder) -> RunSummary:
    """Return the summary of one run."""
    step, total, loss, reward, eta, ended = 0, 0, None, None, -1.0, 0.0
    ending: Event | None = None
    has_guard_stopped = False
    described: list[tuple[float, int]] = []  # when how many images were done
    for time, event in _last_events(folder.events):
        match event:
            case Started():
                step, total, ending, eta = event.step, event.total_steps, None, -1.0
                described.clear()
            case Progress():
                step, total, loss = event.step, event.total_steps, event.loss
                eta = event.eta_seconds
            case Phase(name="captioning"):
                step, total = event.done, event.total
                described.append((time, step))
                eta = _eta_of(described, total)
            case Rewarded():
                reward = event.reward
            case Evaluated():
                has_guard_stopped = event.stops
            case Finished() | Stopped():
                step, ending, ended = event.step, event, time
            case Failed():
                ending, ended = event, time
    try:
        changed = folder.events.stat().st_mtime
    except OSError:
        changed = folder.config.stat().st_mtime
    standing = _standing(folder, ending, step)
    if standing == "finished" and step < total:
        standing = "stopped by the guard" if has_guard_stopped else "ended early"
    ended = ended if ending is not None else 0.0
    return RunSummary(folder.path, standing, step, total, loss, changed, reward, eta, ended)


def _eta_of(described: list[tuple[float, int]], total: int) -> float:
    """Return the seconds until all images are described; -1 if that is not known."""
    (first_time, first), (time, done) = described[0], described[-1]
    return (time - first_time) / (done - first) * (total - done) if done > first else -1.0


def _standing(folder: RunFolder, ending: Event | None, step: int) -> RunStatus:
    if folder.is_busy():
        return "running"
    match ending:
        case Finished():
            return "finished"
        case Stopped():
            return "paused" if ending.reason == "pause" else "stopped"
        case Failed():
            return "failed"
    return "broken off" if step or folder.events.exists() else "not begun"


def _last_events(path: Path) -> Iterable[tuple[float, Event]]:
    """Return the last events, each with its time."""
    try:
        with open_inside(path) as handle:
            size = handle.seek(0, 2)
            handle.seek(max(0, size - _TAIL_BYTES))
            lines = split_lines(handle.read().decode(errors="replace"))
    except OSError:
        return []
    # Of hundreds of steps only the last one counts, and decoding is what takes time.
    last = {line.startswith(_REWARDED): line for line in lines if line.startswith(_STEPS)}
    wanted = (line for line in lines if not line.startswith(_STEPS) or line in last.values())
    # The first line may be cut; it does not decode then.
    decoded = ((line, decode_event(line)) for line in wanted if line)
    return [(event_time(line), event) for line, event in decoded if event is not None]
