"""How FSDP's blocks of a network exchange weights and gradients."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter

from modules.world.world import World, gather_into

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Work


class _Allocating:
    def allocate(
        self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        return torch.empty(*size, dtype=dtype, device=device)


class Gathering(_Allocating, AllGather):
    """Gathers a block's weights as bytes, whatever their dtype: gloo does not know all of them."""

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: dist.ProcessGroup,
        async_op: bool = False,
    ) -> "Work | None":
        every, own = output_tensor.view(torch.uint8), input_tensor.view(torch.uint8)
        work: Work | None = gather_into(every, own, group=group, async_op=async_op)
        return work


class OrderedSum(_Allocating, ReduceScatter):
    """Sums a block's gradients over processes in their order, and over the rounds of a step.

    So it adds in the order of the microbatches' numbers, as one process does, which no
    reduce-scatter of a library promises.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._count = world.size
        self._sum: Tensor | None = None
        self._before: Tensor | None = None

    def begin_step(self) -> None:
        self._sum = self._before = None

    def begin_round(self, count: int) -> None:
        """Begin a round, in which only the first `count` processes have a microbatch."""
        self._count = count
        self._before, self._sum = self._sum, None

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: dist.ProcessGroup,
        op: object,
        async_op: bool = False,
    ) -> None:
        rows = self._world.exchange(input_tensor.view(self._world.size, -1))
        # A block that is computed twice in a round is summed twice: FSDP adds the second to the
        # first, in the same memory.
        total, self._before = self._before, None
        for row in rows[: self._count]:
            total = row if total is None else total.add_(row)
        assert total is not None
        output_tensor.copy_(total)
        if self._sum is None:
            self._sum = output_tensor
