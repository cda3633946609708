"""Networks whose weights are sharded by FSDP2, and the part of them that this process trains.

Every process has some rows of each weight, as plain parameters. Optimizer, EMA, rounding and
checkpoints know only these, and are what they are in one process. FSDP gathers a block's weights
while the block is computed, and shares out the sums of its gradients.

Source: Zhao et al. 2023, arXiv:2304.11277; `torch.distributed.fsdp.fully_shard`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from modules.optim.rounding_noise import Extent
from modules.sharding.exchange import Gathering, OrderedSum
from modules.sharding.rows import Rows
from modules.world.world import World


@dataclass(frozen=True)
class _Weight:
    """A trained weight.

    Attributes:
        sharded: As the network has it, which FSDP gathers.
        own: The same rows, in the same memory, as a plain parameter.
    """

    sharded: nn.Parameter
    own: nn.Parameter
    rows: Rows


class Sharding:
    """The sharded networks of a run.

    Attributes:
        networks: By component.
        own: This process's rows of each trained weight, by its name in checkpoints.
    """

    def __init__(
        self, world: World, networks: Mapping[str, nn.Module], weights: Mapping[str, _Weight]
    ) -> None:
        self.world = world
        self.networks = networks
        self._weights = weights
        self.own = {name: weight.own for name, weight in weights.items()}
        self._sums: list[OrderedSum] = []
        for block in self._blocks():
            total = OrderedSum(world)
            block.set_custom_reduce_scatter(total)
            block.set_custom_all_gather(Gathering())
            # The sum of all processes: each microbatch has its share of the step's loss.
            block.set_gradient_divide_factor(1.0)
            block.set_force_sum_reduction_for_comms(True)
            self._sums.append(total)

    @property
    def extents(self) -> dict[nn.Parameter, Extent]:
        """Which numbers of the whole weight each parameter has."""
        return {weight.own: weight.rows.extent for weight in self._weights.values()}

    def begin_step(self) -> None:
        for total in self._sums:
            total.begin_step()

    def begin_round(self, count: int) -> None:
        """Begin to compute a microbatch in each process; only those of the first `count` count."""
        for weight in self._weights.values():
            weight.sharded.grad = None
        for total in self._sums:
            total.begin_round(count)

    def take_gradients(self) -> None:
        """Give the parameters the gradients of all microbatches of the step."""
        for weight in self._weights.values():
            gradient, weight.sharded.grad = weight.sharded.grad, None
            # FSDP knows nothing of weights that are frozen later.
            if isinstance(gradient, DTensor) and weight.own.requires_grad:
                weight.own.grad = _local(gradient)

    def norms(self, own: Tensor) -> Tensor:
        """Return the norms of whole weights' gradients from those of the rows here, (n,)."""
        norms: Tensor = torch.linalg.vector_norm(self.world.gather(own), dim=0)
        return norms

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Gather all weights, so that this process computes without the others."""
        self._keep_gathered(is_on=True)
        try:
            for block in self._blocks():
                block.unshard()
            yield
        finally:
            self._keep_gathered(is_on=False)
            for block in self._blocks():
                block.reshard()

    def cut(self, name: str, whole: Tensor) -> Tensor:
        """Return a copy of the rows of a tensor in the shape of a whole weight.

        Raises:
            KeyError, ValueError: If there is no such weight.
        """
        return self._weights[name].rows.cut(whole)

    def joined(self, name: str, own: Tensor) -> Tensor:
        """Return the whole of a tensor that has a weight's rows, in RAM, in rank 0.

        All processes ask for the same ones, in the same order.
        """
        return self._weights[name].rows.joined(own, self.world)

    def all_joined(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Do so for tensors by the names of their weights."""
        return {name: self.joined(name, own) for name, own in tensors.items()}

    def _blocks(self) -> Iterator[FSDPModule]:
        for network in self.networks.values():
            for module in network.modules():
                if isinstance(module, FSDPModule):
                    yield module

    def _keep_gathered(self, *, is_on: bool) -> None:
        roots = {id(network) for network in self.networks.values()}
        for block in self._blocks():
            if id(block) not in roots:  # which always keep what belongs to no block
                block.set_reshard_after_forward(not is_on, recurse=False)


def shard(
    networks: Mapping[str, nn.Module],
    layers: Mapping[str, Sequence[nn.Module]],
    trained: Mapping[str, nn.Parameter],
    *,
    world: World,
    device: torch.device,
) -> Sharding:
    """Shard networks layer by layer, each moved to the device before, and from there divided.

    Args:
        networks: By component.
        layers: Of each component, which are gathered one at a time.
        trained: The weights to train, by their names in checkpoints.
        world: More than one process.
        device: That this process trains on.
    """
    places = _places(networks.values(), trained)
    shapes = {name: weight.shape for name, weight in trained.items()}
    every = dist.group.WORLD
    assert every is not None, "the processes have met"
    mesh = DeviceMesh.from_group(every, device.type)
    for component, network in networks.items():
        for layer in layers[component]:
            fully_shard(layer, mesh=mesh, reshard_after_forward=True)
        # Kept until the backward pass: parts of it are read after the forward pass, too.
        fully_shard(network, mesh=mesh, reshard_after_forward=False)
    weights = {}
    for name, (module, attribute) in places.items():
        sharded = module.get_parameter(attribute)
        assert isinstance(sharded, DTensor)
        own = nn.Parameter(_local(sharded))
        weights[name] = _Weight(sharded, own, Rows.of(shapes[name], world))
        assert len(own) == weights[name].rows.count
    return Sharding(world, networks, weights)


def _places(
    networks: Iterable[nn.Module], trained: Mapping[str, nn.Parameter]
) -> dict[str, tuple[nn.Module, str]]:
    """Return the module and the attribute of each weight: sharding puts another one there."""
    found = {
        weight: (module, attribute)
        for network in networks
        for module in network.modules()
        for attribute, weight in module.named_parameters(recurse=False)
    }
    return {name: found[weight] for name, weight in trained.items()}


@torch.no_grad()
def _local(tensor: DTensor) -> Tensor:
    return tensor.to_local()
