"""Accumulation of a step's gradients, in one process or over all that share the run.

Microbatch n is computed by the process of rank n mod size. Gradients are added up in the order of
the microbatches' numbers, as one process adds them, so the sum is the same bit for bit. In each
round of `size` microbatches every process gets its part of the gradients from all of them, and
adds it to its sum; after the last one it gets the other parts' sums. That moves as much as
all-reduce, which adds in an order of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Generic

import torch
from torch import Tensor, nn

from modules.data.loader import Drawn, Loader
from modules.interfaces import Loss
from modules.memory.to_device import to_device
from modules.training.engine import Engine
from modules.world.world import World

if TYPE_CHECKING:
    from modules.sharding.sharding import Sharding

Compute = Callable[[int, Drawn], Loss]
"""Computes a microbatch's gradients, by its number in the step; returns its loss, detached."""
_ALIGNMENT = 512
"""Bytes to which GPUs align tensors, on which the bits of some kernels' results depend."""
_BUCKET_BYTES = 64 << 20
"""Gradients that are exchanged at once: enough for the network, few beside the model."""


@dataclass(frozen=True)
class Accumulation(Generic[Drawn]):
    """Computes the gradients of all microbatches of a step, together with other processes.

    Attributes:
        inputs: Fills up where weights are sharded.
        sharding: None where each process has whole weights.
    """

    world: World
    inputs: Loader[Drawn]
    engine: Engine
    sharding: "Sharding | None" = None

    def __call__(self, step: int, compute: Compute[Drawn]) -> list[Loss]:
        """Leave the step's gradients in the weights; return the losses, in rank 0 alone.

        Raises:
            Exception: That of any process.
        """
        if self.world.is_alone:
            return [compute(number, each) for number, each in enumerate(self.inputs.at(step))]
        if self.sharding is not None:
            return self._sharded(step, compute, self.sharding)
        rank, size = self.world.rank, self.world.size
        count = self.inputs.microbatches_at(step)
        own = self.inputs.at(step)
        weights = self.engine.weights
        sums = [_OrderedSum(self.world, bucket) for bucket in _buckets(weights)]
        updated: set[int] = set()
        losses: list[Loss] = []

        def part(number: int) -> "_Part":
            loss = compute(number, next(own)) if number < count else None
            return _Part.of(loss, weights, self.engine.device)

        for first in range(0, count, size):
            parts = self.world.agree(partial(part, first + rank))
            present = parts[: count - first]
            for each in sums:
                each.add(len(present))
            losses += _gathered_losses(self.world, parts[rank], present)
            updated.update(*(each.has_gradient for each in present))
        assert next(own, None) is None  # the end of a step's microbatches begins the next step's
        for each in sums:
            each.finish()
        for number, weight in enumerate(weights):
            if number not in updated:
                weight.grad = None
        self.engine.set_loss([loss.value for loss in losses])
        return losses if self.world.is_first else []

    def _sharded(self, step: int, compute: Compute[Drawn], sharding: "Sharding") -> list[Loss]:
        """Do the same where all processes compute each block together, which sums its gradients."""
        rank, size = self.world.rank, self.world.size
        count, own = self.inputs.microbatches_at(step), self.inputs.at(step)
        losses: list[Loss] = []
        drawn: list[Drawn] = []

        def read() -> None:
            drawn.append(next(own))

        sharding.begin_step()
        for first in range(0, count, size):
            self.world.agree(read)  # what fails before computing fails in all
            sharding.begin_round(count - first)
            with self.world.computing_together():
                part = _Part.of(compute(first + rank, drawn.pop()), (), self.engine.device)
            parts = self.world.agree(part.itself)
            losses += _gathered_losses(self.world, part, parts)[: count - first]
        assert next(own, None) is None  # as above
        sharding.take_gradients()
        self.engine.set_loss([loss.value for loss in losses])
        return losses if self.world.is_first else []


class _Part:
    """What a process has computed of a round; its tensors stay in the process.

    Attributes:
        has_gradient: Numbers of the weights that have one.
        names: Of the loss's scores.
        items: Number of images.
        numbers: (1 + items * (1 + scores),): the loss, and each image's values.
    """

    def __init__(
        self, has_gradient: Sequence[int], names: Sequence[str], items: int, numbers: Tensor | None
    ) -> None:
        self.has_gradient, self.names, self.items = has_gradient, names, items
        self.numbers = numbers

    def __reduce__(self) -> tuple[object, ...]:
        # Reading the numbers for the other processes would wait for the GPU.
        return _Part, (self.has_gradient, self.names, self.items, None)

    @staticmethod
    def of(loss: Loss | None, weights: Sequence[nn.Parameter], device: torch.device) -> "_Part":
        """Return the part of a process; of one without a microbatch, nothing."""
        if loss is None:
            return _Part((), (), 0, torch.zeros(0, device=device))
        values = (loss.value[None], loss.per_item, *loss.scores.values())
        numbers = torch.cat([to_device(each.float(), device) for each in values])
        gradients = [number for number, each in enumerate(weights) if each.grad is not None]
        return _Part(gradients, tuple(loss.scores), len(loss.per_item), numbers)

    def itself(self) -> "_Part":
        return self

    @property
    def length(self) -> int:
        return 1 + self.items * (1 + len(self.names))

    def loss(self, numbers: Tensor) -> Loss:
        """Return the loss whose numbers these are."""
        value, per_item, *scores = torch.split(
            numbers[: self.length], [1, self.items, *[self.items] * len(self.names)]
        )
        return Loss(value[0], per_item, dict(zip(self.names, scores, strict=True)))


def _gathered_losses(world: World, own: _Part, present: Sequence[_Part]) -> list[Loss]:
    assert own.numbers is not None
    row = own.numbers.new_zeros(max(part.length for part in present))
    row[: len(own.numbers)] = own.numbers
    rows = world.gather(row)
    return [part.loss(numbers) for part, numbers in zip(present, rows, strict=False)]


class _OrderedSum:
    """The sum of the gradients of some weights of one device and dtype."""

    def __init__(self, world: World, weights: Sequence[nn.Parameter]) -> None:
        self._world = world
        self._weights = weights
        step = _ALIGNMENT // weights[0].element_size()
        lengths = [-(-weight.numel() // step) * step for weight in weights]
        *self._offsets, length = accumulate(lengths, initial=0)
        part = -(-length // (world.size * step)) * step
        self._shape = world.size, part
        self._sum: Tensor | None = None

    def add(self, count: int) -> None:
        """Add the gradients of the first `count` processes, and clear them."""
        # -0, since adding it changes nothing: 0 would turn a sum of -0 into 0.
        rows = torch.full(self._shape, -0.0, dtype=self._dtype, device=self._weights[0].device)
        for weight, part in zip(self._weights, self._views(rows), strict=True):
            if weight.grad is not None:
                part.copy_(weight.grad)
                weight.grad = None
        for row in self._world.exchange(rows)[:count]:
            self._sum = row if self._sum is None else self._sum.add_(row)

    def finish(self) -> None:
        """Set every weight's gradient to its sum."""
        assert self._sum is not None
        rows = self._world.gather(self._sum)
        for weight, part in zip(self._weights, self._views(rows), strict=True):
            # In the weight's own layout, which decides the order in which norms are computed.
            weight.grad = part if weight.is_contiguous() else torch.empty_like(weight).copy_(part)

    @property
    def _dtype(self) -> torch.dtype:
        return self._weights[0].dtype

    def _views(self, rows: Tensor) -> list[Tensor]:
        flat = rows.view(-1)
        placed = zip(self._weights, self._offsets, strict=True)
        return [flat[at : at + weight.numel()].view(weight.shape) for weight, at in placed]


def _buckets(weights: Sequence[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Divide weights into some of one device and dtype that are exchanged at once."""
    buckets: list[list[nn.Parameter]] = []
    open_ones: dict[tuple[torch.device, torch.dtype], tuple[list[nn.Parameter], int]] = {}
    for weight in weights:
        key = weight.device, weight.dtype
        bucket, size = open_ones.get(key, ([], 0))
        if not bucket or size + weight.nbytes > _BUCKET_BYTES:
            bucket, size = [], 0
            buckets.append(bucket)
        bucket.append(weight)
        open_ones[key] = bucket, size + weight.nbytes
    return buckets
