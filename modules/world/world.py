"""The processes that share a run, and what they do together.

Rank 0 is the run: it owns the folder, reads commands, decides, and reports. The others follow: they
wait for an order, carry it out together with rank 0, and wait for the next one. Whatever may fail
in one of them while the others wait is carried out by `agree`, and fails in all of them.
"""

import os
import pickle
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from modules.world.launch import Place
from modules.world.link import Hub, Line, ProcessLost
from onetrainer.errors import EndsRun
from onetrainer.files.lines import split_lines
from onetrainer.run.failures import recognize

T = TypeVar("T")
# Renamed in torch 2.13, where the older name warns.
gather_into = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
Order = tuple[str, tuple[Any, ...]]
"""What rank 0 asks the others to do: a name, and arguments."""
# Rank 0 may sample or save for hours: that a process is gone is told by its connection.
_PATIENCE = timedelta(days=7)


class Agreed(Exception):
    """What the others raise for an error that rank 0 raises and handles: they await its orders."""


class _Abandoned(Exception):
    """Rank 0 has no use for further results."""


def _abandon() -> None:
    raise _Abandoned


class World:
    """The processes of a run, as one of them sees them.

    Attributes:
        place: Which of them this one is.
        link: Its connection to the others; None for a run of one process, and in a process that
            another program has started until it has joined.
    """

    def __init__(self, place: Place | None = None, link: Hub | Line | None = None) -> None:
        self.place = place or Place()
        self.rank, self.size = self.place.rank, self.place.size
        self.link = link
        self._host: dist.ProcessGroup | None = None
        # Whether all know how the present `shared` block has ended.
        self._is_settled = True

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        return self.size == 1

    def join(self) -> None:
        """Meet the other processes, once, as accelerate's environment variables say."""
        if self.is_alone or self._host is not None:
            return
        from accelerate import PartialState  # which a run of one process does not load for this
        from accelerate.utils import check_cuda_p2p_ib_support

        if torch.cuda.is_available() and not check_cuda_p2p_ib_support():
            # As `accelerate launch` does for cards that cannot reach each other: it refuses others.
            os.environ |= {"NCCL_P2P_DISABLE": "1", "NCCL_IB_DISABLE": "1"}
        PartialState(cpu=self.place.is_on_cpu or not torch.cuda.is_available())
        # Orders and errors travel between hosts: they never wait for a GPU.
        self._host = dist.new_group(backend="gloo", timeout=_PATIENCE)
        hub = ("hub", (self.link.address,)) if isinstance(self.link, Hub) else None
        _, (address,) = self._broadcast(hub)
        self.link = self.link or Line(address, self.rank)

    def leave(self) -> None:
        """Go on without the others: the run is about to end, and may take its time to do so."""
        if isinstance(self.link, Hub):
            self.link.leave()

    def call(self, name: str, *arguments: object) -> None:
        """Have the others carry out an order; rank 0 does its own part after this."""
        assert self.is_first
        if isinstance(self.link, Hub):
            self.link.begin()
        if not self.is_alone:
            with self._watched():
                self._broadcast((name, arguments))

    def follow(self, handlers: Mapping[str, Callable[..., object]]) -> Order:
        """Carry out the orders of rank 0 until there is one without a handler; return that one."""
        while True:
            with self._watched():
                order = self._broadcast(None)
            if order[0] not in handlers:
                return order
            try:
                handlers[order[0]](*order[1])
            except Agreed:
                continue  # rank 0 handles the error; its next order says what follows

    def agree(self, work: Callable[[], T]) -> list[T]:
        """Do something in every process, and return all results by rank.

        Raises:
            Exception: In rank 0, the error of the first process that failed.
            Agreed: In the others, from their own error if there is one.
        """
        if self.is_alone:
            return [work()]
        error: Exception | None = None
        try:
            outcome: tuple[bool, Any] = True, work()
        except Exception as raised:  # noqa: BLE001 # raised again, by all
            error, outcome = raised, (False, _portable(raised))
        outcomes: list[tuple[bool, Any]] = [outcome] * self.size
        with self._watched():
            dist.all_gather_object(outcomes, outcome, group=self._host)
        outcomes[self.rank] = outcome  # not a copy of it
        failures = [value for succeeded, value in outcomes if not succeeded]
        if failures:
            self._is_settled = True
            if not self.is_first:
                raise Agreed(str(failures[0])) from error
            raise error or failures[0]
        return [value for _, value in outcomes]

    def map(
        self, compute: Callable[[int], T], count: int, before_each: Callable[[int], None]
    ) -> Generator[T, None, None]:
        """Compute the results of numbers from 0 on, shared out, and yield them in order.

        Close it where a result may be of no use: the others then wait for orders again.

        before_each: Called in rank 0 with the number that is next; may raise to abort.
        """
        if self.is_alone:
            for number in range(count):
                before_each(number)
                yield compute(number)
            return

        def part(first: int) -> T | None:
            if self.is_first:
                before_each(first)
            return compute(first + self.rank) if first + self.rank < count else None

        try:
            for first in range(0, count, self.size):
                parts: list[Any] = self.agree(partial(part, first))
                yield from parts[: count - first]
        except GeneratorExit:
            with suppress(_Abandoned):
                self.agree(_abandon)
            raise
        self.agree(lambda: None)

    @contextmanager
    def shared(self, name: str, *arguments: object) -> Iterator[None]:
        """Have the others carry out an order with this block of rank 0, which has the same `map`s.

        Raises:
            EndsRun: From an error that the others do not know of: they would wait for good.
        """
        self._is_settled = self.is_alone
        self.call(name, *arguments)
        try:
            yield
        except Exception as error:
            if self._is_settled or isinstance(error, EndsRun):
                raise
            raise EndsRun(
                f"what the run's processes were to do together has failed in one: {error}",
                "",
                "Resume the run from its last checkpoint.",
                failure=recognize(error),
            ) from error

    @contextmanager
    def rank_0_first(self) -> Iterator[None]:
        """Let rank 0 do something, and the others after it, who find it done."""
        if not self.is_first:
            self.wait_for_all()
        yield
        if self.is_first:
            self.wait_for_all()

    def wait_for_all(self) -> None:
        """Wait until every process is here."""
        if not self.is_alone:
            with self._watched():
                dist.barrier(group=self._host)

    def gather(self, own: Tensor) -> Tensor:
        """Return tensors of one shape of all processes, (size, ...), by rank."""
        every = own.new_empty((self.size, *own.shape))
        with self._watched():
            gather_into(_as_bytes(every), _as_bytes(own), group=self._group_of(own.device))
        return every

    def exchange(self, rows: Tensor) -> Tensor:
        """Send row r of a matrix to rank r; return the rows sent here, (size, ...), by rank."""
        received = torch.empty_like(rows)
        with self._watched():
            dist.all_to_all_single(
                _as_bytes(received), _as_bytes(rows), group=self._group_of(rows.device)
            )
        return received

    @contextmanager
    def computing_together(self) -> Iterator[None]:
        """Say why another process is gone, if computing fails because it is.

        An error in here ends the process, and with it the run: the others wait for its part.
        """
        try:
            yield
        except RuntimeError as error:
            if isinstance(self.link, Line):
                self.link.wait_for_the_end()
            elif isinstance(self.link, Hub) and (cause := self.link.cause()) is not None:
                raise cause from error
            raise

    def _group_of(self, device: torch.device) -> dist.ProcessGroup | None:
        """Return the group that moves tensors of a device; None is the default one."""
        return self._host if device.type == "cpu" else None

    def _broadcast(self, order: Order | None) -> Order:
        orders: list[Any] = [order]
        dist.broadcast_object_list(orders, src=0, group=self._host)
        received: Order = orders[0]
        return received

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Say why another process is gone, where an operation fails because it is."""
        try:
            yield
        except RuntimeError as error:
            match self.link:
                case Hub():
                    cause = self.link.cause()
                    raise cause or ProcessLost(
                        "the connection to another process of the run is lost",
                        split_lines(str(error))[0][:200],
                        "Resume the run from its last checkpoint.",
                    ) from error
                case Line():
                    self.link.wait_for_the_end()
                    raise
                case None:
                    raise


def alone() -> World:
    """Return the world of a run of one process."""
    return World()


def _as_bytes(tensor: Tensor) -> Tensor:
    """Return a tensor's bytes: what travels is added up by the receiver, in any dtype."""
    return tensor.view(-1).view(torch.uint8)


def _portable(error: Exception) -> Exception:
    """Return an error that can be sent: itself, or its text if it cannot be taken apart."""
    try:
        pickle.loads(pickle.dumps(error))  # made here
    except Exception:  # noqa: BLE001 # whatever an exception's own code does
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
