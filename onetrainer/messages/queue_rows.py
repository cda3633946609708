"""Rows of the queue: what the window and the terminal say of each run, and of who else computes."""

import time
from dataclasses import dataclass
from pathlib import Path

from onetrainer.config.fields import setting_at
from onetrainer.messages.formatting import counted, format_moment
from onetrainer.messages.run_standing import standing_text
from onetrainer.queue.listing import Listing
from onetrainer.queue.queue import Entry
from onetrainer.run.device_owner import Holder
from onetrainer.run.history import RunSummary
from onetrainer.run.job_folders import is_job
from onetrainer.run.run_folder import RunFolder

EMPTY = "No run is queued yet."
_BUSY = {"": "Training", "caption": "Describing images"}


@dataclass(frozen=True)
class QueueRow:
    """A row. key: The folder of its run, or else what tells it from others. number: Its place."""

    key: str
    number: str
    name: str
    state: str
    device: str
    steps: str
    done: str


def queue_rows(listing: Listing) -> list[QueueRow]:
    """Return the rows: first who is there without being in the queue, then its runs in order."""
    numbers = {entry.run: str(n) for n, entry in enumerate(listing.state.waiting, start=1)}
    others = [_other(holder, left) for holder, left in listing.others.items()]
    return others + [
        _row(entry, listing, numbers.get(entry.run, "")) for entry in listing.state.entries
    ]


def standing_of_queue(listing: Listing) -> str:
    """Return what the queue as a whole does, or waits for."""
    state = listing.state
    waiting = counted(len(state.waiting), "run")
    if not state.entries:
        return EMPTY
    if state.is_held:
        return f"Held: {waiting} waiting. A run that is training goes on to its end."
    if state.waiting and not listing.is_served:
        return f"{waiting} waiting. Nothing begins until the queue is started."
    if listing.blocking and not state.running:
        return f"{waiting} waiting for {listing.blocking}, which the queue did not start."
    if state.waiting:
        return f"{waiting} waiting."
    return "The last run is training." if state.running else "Nothing waits."


def device_label(device: str) -> str:
    """Return a device, or several, as the form names them: "automatic", "GPU 1"."""
    setting = setting_at("hardware.device")
    assert setting is not None
    names = setting.ui.choices
    return names.get(device) or ", ".join(names.get(each, each) for each in device.split(","))


def _row(entry: Entry, listing: Listing, number: str) -> QueueRow:
    run, name, device = listing.runs[entry.run], entry.folder.name, device_label(entry.device)
    if run is None:
        return QueueRow(entry.run, "", name, "Its folder is gone", device, "", "")
    end = listing.ends.get(entry.run)
    done = "" if end is None else _clock(time.time() + end)
    is_new = bool(entry.job) and entry.turn == "waiting"  # what it did before is another job's
    steps = f"{run.step:,} of {run.total_steps:,}" if run.total_steps and not is_new else ""
    match entry.turn:
        case "waiting":
            state = f"Waits, paused at step {run.step:,}" if run.step and not is_new else "Waits"
        case "running":
            state = _running(entry, listing.held_by.get(entry.run, ""))
        case "over":
            state, done = _over(entry, run), _clock(run.changed)
    return QueueRow(entry.run, number, name, state, device, steps, done)


def _running(entry: Entry, holder: str) -> str:
    if holder:
        return f"Waits for {holder}"
    return "Pausing" if entry.passes else _BUSY.get(entry.job, "Running")


def _over(entry: Entry, run: RunSummary) -> str:
    return f"Not started: {entry.error}" if entry.error else standing_text(run)


def _other(holder: Holder, left: float | None) -> QueueRow:
    """Return the row of who owns a device, or waits for one, without being in the queue."""
    owner = holder.owner
    if holder.waits:
        state = "Waits for the device"
    elif owner.run:
        what = "Describing images" if is_job(RunFolder(Path(owner.run))) else "Training"
        state = f"{what}, not of the queue"
    elif owner.yields:
        state = "Generating images" if left else "Keeps its model; lets others pass"
    else:
        state = "Computing, not of the queue"
    key = owner.run if owner.run and not holder.waits else f"{holder.place} {state}"
    done = _clock(time.time() + left) if left else ""
    return QueueRow(key, "", owner.name, state, _place_label(holder.place), "", done)


def _place_label(place: str) -> str:
    return "CPU" if place == "cpu" else place.replace("gpu-", "GPU ")


def _clock(moment: float) -> str:
    return format_moment(moment, "%a %H:%M")
