"""Streams and events that remember who has waited for whom.

Each stream, and the host, counts its own work and knows how much of the others' work it has waited
for (vector clocks: Mattern 1988). Work that uses what another has written without having waited for
it is an error, as are freed memory that is given away while somebody may still use it, and host
memory that is overwritten while the GPU reads it.
"""

from collections.abc import Iterable
from typing import Any

import torch

from tests.pretend.ledger import CPU, CUDA, Entry, Ledger


class Stream:
    """A queue of work on the GPU; also stands for the host, whose work is done at once."""

    def __init__(self, streams: "Streams", name: str, number: int) -> None:
        self.streams = streams
        self.name = name
        self.stream_id = number
        self.device = CUDA
        self.device_index = 0
        self.device_type = 1
        self.priority = 0
        self.cuda_stream = number
        self.now = 1
        self.seen: dict[Stream, int] = {}
        # Uses by others of memory that was this stream's and is free again.
        self.given_back: list[tuple[Stream, int]] = []

    def knows(self, other: "Stream", tick: int) -> bool:
        """Whether work that is queued here now comes after the other's work of that time."""
        host = self.streams.host
        if other is self or other is host:
            return True  # what the host does is done before it asks for more
        return max(self.seen.get(other, 0), host.seen.get(other, 0)) >= tick

    def join(self, other: "Stream") -> None:
        """Waits for all that the other has queued, and for all that this has waited for."""
        self.join_times({**other.seen, other: other.now})

    def join_times(self, times: "dict[Stream, int]") -> None:
        """Waits for others' work up to these times."""
        for stream, tick in times.items():
            if stream is not self:
                self.seen[stream] = max(self.seen.get(stream, 0), tick)

    def wait_stream(self, stream: "Stream") -> None:
        """As torch.cuda.Stream's."""
        self.streams.is_used = True
        self.join(stream)

    def wait_event(self, event: "Event") -> None:
        """As torch.cuda.Stream's."""
        self.join_times(event.times)

    def record_event(self, event: "Event | None" = None) -> "Event":
        """As torch.cuda.Stream's."""
        event = event or Event(self.streams)
        event.record(self)
        return event

    def synchronize(self) -> None:
        """The host waits for the stream."""
        self.streams.ledger.wait("stream.synchronize")
        self.streams.host.join(self)

    def query(self) -> bool:
        """Whether the host knows that all is done."""
        return self.streams.host.knows(self, self.now)

    def __enter__(self) -> "Stream":
        self.streams.enter(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.streams.leave()

    def __repr__(self) -> str:
        return f"<pretended {self.name}>"


class Event:
    """A point in a stream's work."""

    def __init__(self, streams: "Streams") -> None:
        self.streams = streams
        self.device = CUDA
        self.times: dict[Stream, int] = {}

    def record(self, stream: Stream | None = None) -> None:
        """As torch.cuda.Event's."""
        stream = stream or self.streams.current
        self.times = {**stream.seen, stream: stream.now}

    def wait(self, stream: Stream | None = None) -> None:
        """As torch.cuda.Event's."""
        (stream or self.streams.current).wait_event(self)

    def synchronize(self) -> None:
        """The host waits for the point."""
        self.streams.ledger.wait("event.synchronize")
        self.streams.host.join_times(self.times)

    def query(self) -> bool:
        """Whether the host knows that the point was reached."""
        host = self.streams.host
        return all(host.knows(stream, tick) for stream, tick in self.times.items())

    def elapsed_time(self, other: "Event") -> float:
        """No time passes on a pretended GPU."""
        return 0.0


class Streams:
    """All streams of a GPU.

    is_used: whether anything has been queued without waiting. has_others: whether there is more
    than one stream; before that all work of the GPU is in order.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.is_used = False
        self.has_others = False
        self.host = Stream(self, "host", -1)
        self.default = Stream(self, "default stream", 0)
        self.all = [self.default]
        self._entered: list[Stream] = []
        ledger.on_free = self.freed

    @property
    def current(self) -> Stream:
        """The stream that work is queued on now."""
        return self._entered[-1] if self._entered else self.default

    def new(self) -> Stream:
        """Another stream."""
        self.is_used = self.has_others = True
        stream = Stream(self, f"stream {len(self.all)}", len(self.all))
        self.all.append(stream)
        return stream

    def matters_to(self, place: torch.device) -> bool:
        """Whether work in a place can come too early."""
        return self.has_others or (self.is_used and place is CPU)

    def enter(self, stream: Stream | None) -> None:
        """Work is queued on the stream from now on."""
        self._entered.append(stream or self.current)

    def leave(self) -> None:
        """Work is queued where it was before."""
        self._entered.pop()

    def synchronize(self) -> None:
        """The host waits for the whole GPU."""
        for stream in self.all:
            self.host.join(stream)

    def host_waits(self) -> None:
        """The host has waited for what was queued on the current stream."""
        self.host.join(self.current)

    def use(
        self, actor: Stream, read: Iterable[Entry], written: Iterable[Entry], what: str
    ) -> None:
        """Notes a piece of work. Raises RuntimeError if it uses what may not be done yet."""
        actor.now += 1
        for entry in read:
            self._require_landed(actor, entry, what)
            if entry.reads is None:
                entry.reads = {}
            entry.reads[actor] = actor.now
        for entry in written:
            self._require_landed(actor, entry, what)
            for reader, tick in (entry.reads or {}).items():
                if isinstance(reader, Stream) and not actor.knows(reader, tick):
                    raise RuntimeError(
                        f"{what} on {actor.name} overwrites what {reader.name} may still be"
                        " reading; wait for it first (wait_stream, an event or synchronize)"
                    )
            entry.writer, entry.tick = actor, actor.now

    def made(self, actor: Stream, entry: Entry) -> None:
        """Notes memory that a piece of work has been given for its result."""
        for user, tick in actor.given_back:
            if not actor.knows(user, tick):
                actor.given_back.clear()
                raise RuntimeError(
                    f"memory that {user.name} may still use was freed and is given to {actor.name}"
                    " again; call record_stream, or let it wait"
                )
        actor.given_back.clear()
        entry.home = entry.writer = actor
        entry.tick = actor.now

    def freed(self, entry: Entry) -> None:
        """Notes that memory of the GPU goes back to the stream that it was made for."""
        home = entry.home or self.default
        if not self.has_others or entry.place is not CUDA or not isinstance(home, Stream):
            return
        used: dict[Any, int] = dict(entry.reads or {})
        if entry.writer is not None:
            used[entry.writer] = entry.tick
        home.given_back += [
            (user, tick)
            for user, tick in used.items()
            if user is not home and user not in (entry.recorded or ())
        ]

    def _require_landed(self, actor: Stream, entry: Entry, what: str) -> None:
        writer = entry.writer
        if writer is None and entry.place is CUDA:
            # Made before anybody else worked: it is enough to have waited at all.
            is_known = actor.knows(self.default, 1)
            writer = self.default
        else:
            is_known = not isinstance(writer, Stream) or actor.knows(writer, entry.tick)
        if not is_known:
            assert isinstance(writer, Stream)
            raise RuntimeError(
                f"{what} on {actor.name} uses what {writer.name} may still be writing; wait for it"
                " first (wait_stream, an event or synchronize)"
            )
