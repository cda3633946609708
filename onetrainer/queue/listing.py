"""All that is shown of the queue: its entries, when each is done, and who else computes."""

from onetrainer.queue.queue import Queue, summary_of
from onetrainer.queue.serve import is_served
from onetrainer.queue.times import seconds_left_of, seconds_to_end
from onetrainer.run.device_owner import Holder, holders


class Listing:
    """The queue as it was read.

    Attributes:
        state: Its file.
        is_served: Whether a process serves it.
        runs: What has become of each run, by its folder; None if that is gone.
        ends: Seconds until each is done; None if unknown.
        others: Who owns or waits for a device without being in the queue, each with the seconds
            until it is done.
        held_by: What the runs that have their turn still wait for, by their folders.
        blocking: The name of what the queue waits for, if that is not of the queue; "" otherwise.
    """

    def __init__(self, queue: Queue) -> None:
        self.state = queue.read()
        self.is_served = is_served(queue)
        self.runs = {entry.run: summary_of(entry) for entry in self.state.entries}
        own, everyone = {entry.run for entry in self.state.running}, holders()
        others = [each for each in everyone if each.owner.run not in own]
        self.others = {each: seconds_left_of(each) for each in others}
        self.ends = seconds_to_end(self.state, self.others)
        owners = {each.place: each.owner.name for each in everyone if not each.waits}
        self.held_by = {
            each.owner.run: owners.get(each.place, "another program")
            for each in everyone
            if each.waits and each.owner.run in own
        }
        wanted = {place for entry in self.state.waiting for place in entry.places}
        blocking = (e for e in others if e.place in wanted and not _lets_pass(e))
        self.blocking = next((each.owner.name for each in blocking), "")


def _lets_pass(holder: Holder) -> bool:
    return holder.waits or holder.owner.yields
