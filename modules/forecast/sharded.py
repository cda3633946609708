"""What each process of a run keeps where its trained weights are sharded."""

from collections.abc import Mapping, Sequence

from torch import nn

from modules.memory.residency import Phase
from modules.meta_device.meter import size_of
from onetrainer.config.methods.full import Full
from onetrainer.config.run.hardware import process_count
from onetrainer.config.train import TrainConfig

_DIVIDED = frozenset({"gradients", "optimizer", "ema"})
_GATHERED = frozenset({"validation", "encoding", "sampling", "decoding"})
"""Phases in which a process has all weights of a trained network, besides its own rows."""
_LAYERS_AT_ONCE = 3
"""The one that is computed, the next one that is gathered, and the gradients of the first."""


def share_of(config: TrainConfig) -> int:
    """Return among how many processes of this computer the trained weights are divided."""
    hardware = config.hardware
    if hardware.sharding == "none" or not isinstance(config.method, Full):
        return 1
    return process_count(hardware.device, hardware.processes)


def weight_bytes(
    network: nn.Module, layers: Sequence[nn.Module], phase: Phase, *, share: int
) -> int:
    """Return the bytes of a sharded network's weights in each process."""
    whole = _bytes(network)
    if phase in _GATHERED:
        return whole // share + whole
    if phase != "training":
        return whole // share
    sizes = [_bytes(layer) for layer in layers]
    # What belongs to no layer stays gathered from the forward pass to the backward pass.
    gathered = whole - sum(sizes) + _LAYERS_AT_ONCE * max(sizes, default=0)
    return whole // share + min(whole, gathered)


def divided(parts: Mapping[str, int], *, share: int) -> dict[str, int]:
    """Return the memory of a phase with what is divided by the number of processes."""
    return {part: size // share if part in _DIVIDED else size for part, size in parts.items()}


def _bytes(module: nn.Module) -> int:
    return sum(size_of(weight) for weight in module.parameters())
