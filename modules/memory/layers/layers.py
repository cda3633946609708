"""How each layer of a model is computed: as it is, checkpointed, or with weights that wait."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import nn

from modules.memory.layers.activations import SavedInputs
from modules.memory.layers.checkpointing import create_checkpointed_forward, resolved
from modules.memory.layers.offload import OffloadedForward
from modules.memory.layers.streams import StreamedInputs, StreamedWeights
from modules.memory.layers.transfer import DirectTransfer, InputTransfer, Transfer, WeightTransfer


@dataclass(frozen=True)
class LayerSettings:
    """What is done to save memory.

    checkpointing: which layers are computed twice, and what of them is kept. offload: the share of
    each part's bytes in layers whose weights wait on the temporary device. activations: the share
    of each part's layers whose saved inputs wait there. prefetch: whether copies travel ahead of
    time, on streams of their own.
    """

    checkpointing: Literal["off", "selective", "block"] = "off"
    offload: float = 0.0
    activations: float = 0.0
    prefetch: bool = False


@dataclass(frozen=True)
class ManagedLayers:
    """Layers that compute as `manage_layers` says, until `undo`.

    waiting: the parameters that stay on the temporary device, also while their part computes.
    """

    waiting: frozenset[nn.Parameter]
    layers: tuple[nn.Module, ...]

    def undo(self) -> None:
        """Lets every layer compute as it did before; what is undone already stays so."""
        for layer in self.layers:
            _undo(layer)


class _ManagedForward:
    """A layer's forward in another manner.

    original: the layer's own. is_own: whether it was set on this very layer, not by its class.
    """

    def __init__(
        self, forward: Callable[..., Any], original: Callable[..., Any], *, is_own: bool
    ) -> None:
        self._forward = forward
        self.original = original
        self.is_own = is_own

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # any layer's
        return self._forward(*args, **kwargs)


def manage_layers(
    layers: Mapping[str, Sequence[nn.Module]],
    settings: LayerSettings,
    *,
    train_device: torch.device,
    offload_device: torch.device,
    transfer: Transfer | None = None,
) -> ManagedLayers:
    """Makes layers compute as the settings say; layers that are managed already are so anew.

    layers: by part, in the order in which they are computed. transfer: by which weights and saved
    inputs travel; None means one as the settings say.
    Outputs and gradients stay the same. Layers whose weights or inputs wait are checkpointed as
    blocks. Where both devices are the same nothing waits and nothing is copied.
    Weights that wait have to be on the temporary device when they are computed with.
    """
    roads = _roads(resolved(train_device), resolved(offload_device), settings, transfer)
    waiting: list[nn.Parameter] = []
    managed: list[nn.Module] = []
    for own in layers.values():
        for layer in own:
            _undo(layer)
        waiting += _manage_part(own, settings, roads)
        managed += own
    return ManagedLayers(frozenset(waiting), tuple(managed))


def evenly(sizes: Sequence[int], share: float) -> tuple[bool, ...]:
    """Which of things in a row are chosen, so that their sizes reach a share of all, evenly spread.

    Of every beginning of the row at least the share is chosen, and at most one thing more than it
    takes: 0 chooses none, 1 all.
    """
    chosen, total, choices = 0, 0, []
    for size in sizes:
        total += size
        is_chosen = chosen < share * total
        chosen += size * is_chosen
        choices.append(is_chosen)
    return tuple(choices)


@dataclass(frozen=True)
class _Roads:
    """The two devices, and by what weights and saved inputs travel between them."""

    train_device: torch.device
    offload_device: torch.device
    weights: WeightTransfer
    inputs: InputTransfer

    @property
    def are_apart(self) -> bool:
        return self.train_device != self.offload_device


def _roads(
    train_device: torch.device,
    offload_device: torch.device,
    settings: LayerSettings,
    transfer: Transfer | None,
) -> _Roads:
    devices = train_device, offload_device
    if transfer is not None:
        return _Roads(*devices, transfer, transfer)
    if settings.prefetch and (train_device.type, offload_device.type) == ("cuda", "cpu"):
        return _Roads(*devices, StreamedWeights(*devices), StreamedInputs(train_device))
    direct = DirectTransfer(*devices)
    return _Roads(*devices, direct, direct)


def _manage_part(
    layers: Sequence[nn.Module], settings: LayerSettings, roads: _Roads
) -> list[nn.Parameter]:
    """Gives each layer of a part its forward; returns the weights that wait."""
    offloads = evenly([size_of(layer) for layer in layers], settings.offload)
    saves = evenly([1] * len(layers), settings.activations)
    inputs = SavedInputs(roads.inputs, only_first=True)
    visitors: list[OffloadedForward] = []
    for layer, is_offloaded, is_saved in zip(layers, offloads, saves, strict=True):
        policy = "block" if is_offloaded or is_saved else settings.checkpointing
        if policy == "off":
            continue
        original = forward = layer.forward
        if is_offloaded and roads.are_apart:
            forward = OffloadedForward(layer, original, roads.weights)
            visitors.append(forward)
        checkpointed = create_checkpointed_forward(
            forward,
            roads.train_device,
            roads.offload_device,
            policy=policy,
            saved=inputs if is_saved else None,
        )
        is_own = "forward" in vars(layer)
        layer.forward = _ManagedForward(checkpointed, original, is_own=is_own)
    for one, next_one in pairwise(visitors):
        one.after, next_one.before = next_one.weights, one.weights
    return [weight for visitor in visitors for weight in visitor.weights]


def size_of(layer: nn.Module) -> int:
    """The bytes of a layer's own weights."""
    return sum(weight.numel() * weight.element_size() for weight in layer.parameters())


def _undo(layer: nn.Module) -> None:
    managed = layer.forward
    if not isinstance(managed, _ManagedForward):
        return
    del layer.forward
    if managed.is_own:
        layer.forward = managed.original
