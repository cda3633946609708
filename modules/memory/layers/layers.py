"""Memory-saving forward passes of layers: gradient checkpointing, CPU offload, or plain."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import nn

from modules.memory.layers.activations import SavedInputs
from modules.memory.layers.checkpointing import create_checkpointed_forward, resolve_device
from modules.memory.layers.offload import OffloadedForward
from modules.memory.layers.streams import StreamedInputs, StreamedWeights
from modules.memory.layers.transfer import DirectTransfer, InputTransfer, Transfer, WeightTransfer


@dataclass(frozen=True)
class LayerSettings:
    """Memory settings of layers: checkpointing, offload.

    checkpointing: which layers are recomputed in backward, and what of them is saved. offload:
    the fraction of each component's bytes in offloaded layers. activations: the fraction of each
    component's layers whose saved inputs are offloaded. prefetch: whether copies are made ahead
    of time, on streams of their own. draws: whether a layer may draw random numbers.
    """

    checkpointing: Literal["off", "selective", "block"] = "off"
    offload: float = 0.0
    activations: float = 0.0
    prefetch: bool = False
    draws: bool = True


@dataclass(frozen=True)
class ManagedLayers:
    """Layers that compute as `manage_layers` set them up, until `undo`.

    offloaded: the parameters that stay on the offload device, also while their component computes.
    """

    offloaded: frozenset[nn.Parameter]
    layers: tuple[nn.Module, ...]

    def undo(self) -> None:
        """Restore every layer's own forward; layers restored before are left alone."""
        for layer in self.layers:
            _undo(layer)


class _ManagedForward:
    """A layer's replaced forward.

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
    """Make layers compute as the settings say, replacing what was set before.

    Outputs and gradients stay the same. Layers whose weights or inputs are offloaded are
    checkpointed as blocks. If both devices are the same, nothing is offloaded or copied.
    Offloaded weights must be on the offload device when their layer computes.

    Args:
        layers: By component, in the order in which they compute.
        settings: What is done to save memory.
        train_device: The device that computes.
        offload_device: The device that weights and saved inputs are offloaded to.
        transfer: Copies weights and saved inputs; None chooses one by the settings.
    """
    devices = resolve_device(train_device), resolve_device(offload_device)
    transfers: tuple[WeightTransfer, InputTransfer]
    if transfer is None and settings.prefetch and [d.type for d in devices] == ["cuda", "cpu"]:
        transfers = StreamedWeights(*devices), StreamedInputs(devices[0])
    else:
        transfers = (transfer or DirectTransfer(*devices),) * 2
    offloaded: list[nn.Parameter] = []
    managed: list[nn.Module] = []
    for component in layers.values():
        for layer in component:
            _undo(layer)
        offloaded += _manage_component(component, settings, devices, *transfers)
        managed += component
    return ManagedLayers(frozenset(offloaded), tuple(managed))


def spread_evenly(sizes: Sequence[int], fraction: float) -> tuple[bool, ...]:
    """Select items in a row, evenly spread, so that their sizes reach a fraction of the total.

    Every prefix of the row reaches at least the fraction, with at most one item more than that
    takes: 0 selects none, 1 all.
    """
    selected, total, choices = 0, 0, []
    for size in sizes:
        total += size
        is_selected = selected < fraction * total
        selected += size * is_selected
        choices.append(is_selected)
    return tuple(choices)


def _manage_component(
    layers: Sequence[nn.Module],
    settings: LayerSettings,
    devices: tuple[torch.device, torch.device],
    weights: WeightTransfer,
    inputs: InputTransfer,
) -> list[nn.Parameter]:
    """Replace the forward of each layer of a component; return the offloaded weights."""
    offloads = spread_evenly([size_of(layer) for layer in layers], settings.offload)
    saves = spread_evenly([1] * len(layers), settings.activations)
    saved_inputs = SavedInputs(inputs, only_first=True)
    forwards: list[OffloadedForward] = []
    for layer, is_offloaded, is_saved in zip(layers, offloads, saves, strict=True):
        policy = "block" if is_offloaded or is_saved else settings.checkpointing
        if policy == "off":
            continue
        original = forward = layer.forward
        if is_offloaded and devices[0] != devices[1]:
            forward = OffloadedForward(layer, original, weights)
            forwards.append(forward)
        checkpointed = create_checkpointed_forward(
            forward,
            *devices,
            policy=policy,
            saved=saved_inputs if is_saved else None,
            draws=settings.draws,
        )
        is_own = "forward" in vars(layer)
        layer.forward = _ManagedForward(checkpointed, original, is_own=is_own)
    for forward, next_forward in pairwise(forwards):
        forward.after, next_forward.before = next_forward.weights, forward.weights
    return [weight for forward in forwards for weight in forward.weights]


def size_of(layer: nn.Module) -> int:
    """Return the size of a layer's weights in bytes."""
    return sum(weight.numel() * weight.element_size() for weight in layer.parameters())


def _undo(layer: nn.Module) -> None:
    managed = layer.forward
    if not isinstance(managed, _ManagedForward):
        return
    del layer.forward
    if managed.is_own:
        layer.forward = managed.original
