"""When each run of the queue will be done, by its forecast and by how it runs."""

from onetrainer.queue.queue import Entry, QueueState
from onetrainer.run.history import summary


def seconds_to_end(state: QueueState) -> dict[str, float | None]:
    """Return the seconds until each run that is running or waits is done, by its folder.

    None from the first run on whose duration is not known.
    """
    total: float | None = 0.0
    ends = {}
    for entry in sorted(state.entries, key=lambda each: each.turn != "running"):
        if entry.turn == "over":
            continue
        left = _seconds_left(entry)
        total = None if left is None or total is None else total + left
        ends[entry.run] = total
    return ends


def _seconds_left(entry: Entry) -> float | None:
    run = summary(entry.folder)
    if run.standing == "running" and run.eta_seconds >= 0:
        return run.eta_seconds
    if not entry.seconds:
        return None
    done = run.step / run.total_steps if run.total_steps else 0.0
    return entry.seconds * (1 - done)
