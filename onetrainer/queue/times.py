"""When each run of the queue will be done, by its forecast and by how it runs."""

from collections.abc import Mapping
from pathlib import Path
from time import time
from types import MappingProxyType

from onetrainer.queue.queue import Entry, QueueState, summary_of
from onetrainer.run.device_owner import Holder
from onetrainer.run.history import RunSummary, summary
from onetrainer.run.run_folder import RunFolder


def seconds_to_end(
    state: QueueState, others: Mapping[Holder, float | None] = MappingProxyType({})
) -> dict[str, float | None]:
    """Return the seconds until each run that is running or waits is done, by its folder.

    None from the first run of a device on whose duration is not known. Those whose folder is gone
    are left out: they take no time.

    others: Owners that are not of the queue, which its runs wait for, each with the seconds left.
    """
    ends: dict[str, float | None] = {}
    totals: dict[str, float | None] = {}
    for holder, seconds in others.items():
        if not (holder.waits or holder.owner.yields):
            total = totals.get(holder.place, 0.0)  # of other owners, where it is shared
            is_known = seconds is not None and total is not None
            totals[holder.place] = max(seconds or 0.0, total or 0.0) if is_known else None
    for entry in sorted(state.entries, key=lambda each: each.turn != "running"):
        run = summary_of(entry) if entry.turn != "over" else None
        if run is None:
            continue
        left = _seconds_left(entry, run)
        before = [totals.get(place, 0.0) for place in entry.places]
        known = [seconds for seconds in before if seconds is not None]
        is_known = left is not None and len(known) == len(before)
        ends[entry.run] = max(known) + left if is_known and left is not None else None
        totals |= dict.fromkeys(entry.places, ends[entry.run])
    return ends


def seconds_left_of(holder: Holder) -> float | None:
    """Return the seconds until an owner is done; None if that is not known."""
    owner = holder.owner
    if owner.run and not holder.waits:
        try:
            eta = summary(RunFolder(Path(owner.run))).eta_seconds
        except OSError:
            return None
        return eta if eta >= 0 else None
    return max(0.0, owner.ends - time()) if owner.ends else None


def _seconds_left(entry: Entry, run: RunSummary) -> float | None:
    if run.standing == "running" and run.eta_seconds >= 0:
        return run.eta_seconds
    if not entry.seconds:
        return None
    if entry.job:  # its forecast is of what was left
        return entry.seconds
    done = run.step / run.total_steps if run.total_steps else 0.0
    return entry.seconds * (1 - done)
