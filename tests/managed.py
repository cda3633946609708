"""Families whose layers are checkpointed or offloaded, for tests that hold for all of them."""

from collections import Counter

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from modules.memory.layers.layers import LayerSettings, ManagedLayers, manage_layers

CPU = torch.device("cpu")
ELSEWHERE = torch.device("meta")  # a second device that every machine has


class Journeys:
    """A transfer within the processor's memory, with copies as between devices, which counts."""

    def __init__(self) -> None:
        self.fetched: list[Tensor] = []  # what was asked for, in order
        self.sent: list[Tensor] = []
        self.returns = 0  # how often gradients came back, any number at once
        self.announced: list[Tensor] = []

    def to_device(self, tensor: Tensor) -> Tensor:
        self.fetched.append(tensor)
        return tensor.detach().clone()

    def to_host(self, tensor: Tensor) -> Tensor:
        self.sent.append(tensor)
        return tensor.detach().clone()

    def all_to_host(self, gradients) -> list[Tensor]:
        self.sent += gradients
        self.returns += 1
        return [gradient.detach().clone() for gradient in gradients]

    def prefetch(self, tensors) -> None:
        self.announced += tensors


def manage(
    layers, settings: LayerSettings, journeys: Journeys | None = None, *, is_apart: bool = True
) -> ManagedLayers:
    """Layers of a family, or by part, managed with two devices of which the second is a fiction."""
    by_part = layers if isinstance(layers, dict) else layers.layers()
    offload_device = ELSEWHERE if is_apart else CPU
    return manage_layers(
        by_part,
        settings,
        train_device=CPU,
        offload_device=offload_device,
        transfer=journeys or Journeys(),
    )


def checkpoint(family, policy: str = "block") -> ManagedLayers:
    """Checkpoints every layer of a family."""
    return manage(family, LayerSettings(checkpointing=policy), is_apart=False)


class Calls:
    """Counts a module's calls."""

    def __init__(self, module: nn.Module) -> None:
        self.count = 0
        module.register_forward_pre_hook(self._count)

    def _count(self, *_: object) -> None:
        self.count += 1


class Operations(TorchDispatchMode):
    """Counts operations by name, and the bytes of their results that are still alive."""

    def __init__(self, *, besides=()) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self._besides = {tensor.untyped_storage()._cdata for tensor in besides}
        self._made: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        self.counts[func.overloadpacket.__name__] += 1
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self._besides:
                    self._made[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        return made

    @property
    def alive(self) -> int:
        """Bytes that somebody still holds."""
        return sum(size for storage, size in self._made.values() if not storage.expired())
