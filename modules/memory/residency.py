"""Placement of a model's components on devices in each phase of a run, and their moves.

Components stay on the offload device while no phase needs them, and on the train device while one
does. A phase is a context: leaving it, also by an exception, restores the placement before.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from modules.memory.layers.checkpointing import resolve_device
from modules.memory.layers.packing import Packed, views_in

Phase = Literal[
    "loading", "caching", "training", "validation", "encoding", "sampling", "decoding", "saving"
]
Placement = Literal["train", "offload", "nowhere"]
Enter = Callable[[Phase], AbstractContextManager[None]]
"""Enters a phase, as `Residency.phase` does."""

PHASES: tuple[Phase, ...] = get_args(Phase)
METHOD = "method"
"""Adapters and token embeddings, as one component."""
REWARDS = "rewards"
"""The networks that score images in reward training."""


@dataclass(frozen=True)
class PlacementInputs:
    """Properties of a run that determine where its components are placed.

    encoders: the text encoders' names. trained: the networks whose own weights train.
    predicts: whether a step runs the UNet. encodes_images, encodes_text: whether each step does,
    rather than caching. samples: whether samples may be generated. encodes_blanks: whether caching
    encodes empty images, as UNets that see masked images need them. scores: whether steps decode
    images and score them.
    """

    encoders: Sequence[str]
    trained: Collection[str]
    predicts: bool
    encodes_images: bool
    encodes_text: bool
    samples: bool
    encodes_blanks: bool = False
    scores: bool = False


def placement_table(inputs: PlacementInputs) -> dict[str, dict[Phase, Placement]]:
    """Return the placement of each component in each phase.

    What trains is on the train device from the first step on, since its optimizer state is. A
    component that nothing needs after caching is "nowhere": its memory is freed.
    """
    steps, caching = frozenset[Phase]({"training", "validation"}), frozenset[Phase]({"caching"})
    # Moving the UNet for each sample would take longer than decoding one.
    needed: dict[str, frozenset[Phase]] = {
        "unet": _AFTER_CACHING if inputs.predicts else _if(inputs.samples, "sampling"),
        "vae": (steps if inputs.encodes_images else caching)
        | _if(inputs.encodes_blanks, "caching")
        | _if(inputs.scores, "training")
        | _if(inputs.samples, "decoding"),
        METHOD: _AFTER_CACHING,
        REWARDS: _if(inputs.scores, "training"),
    }
    encoder = (steps if inputs.encodes_text else caching) | _if(inputs.samples, "encoding")
    needed |= dict.fromkeys(inputs.encoders, encoder)
    table: dict[str, dict[Phase, Placement]] = {}
    for component, phases in needed.items():
        phases |= _if(component in inputs.trained, *_AFTER_CACHING)
        rest: Placement = "offload" if phases & _AFTER_CACHING else "nowhere"
        table[component] = dict.fromkeys(PHASES[:2], "offload")
        table[component] |= dict.fromkeys(PHASES[2:], rest) | dict.fromkeys(phases, "train")
    return table


_AFTER_CACHING: frozenset[Phase] = frozenset(PHASES[2:])


def _if(is_needed: bool, *phases: Phase) -> frozenset[Phase]:
    return frozenset(phases) if is_needed else frozenset()


class Residency:
    """Moves components between the train device and the offload device, as each phase needs.

    All must be on the offload device at construction.

    Args:
        table: The result of `placement_table`.
        components: The networks by their names in the table; names missing from either are
            ignored.
        train_device: The device of the placement "train".
        offload_device: The device of the placement "offload".
        offloaded: Parameters that stay on the offload device in every phase, because their layers
            fetch them.
        pins: Whether frozen components that wait during the run do so in pinned memory, from which
            a GPU fetches each of them as one copy.
    """

    def __init__(
        self,
        table: Mapping[str, Mapping[Phase, Placement]],
        components: Mapping[str, nn.Module],
        *,
        train_device: torch.device,
        offload_device: torch.device,
        offloaded: Collection[nn.Parameter] = (),
        pins: bool = False,
    ) -> None:
        # With its index, as tensors report it: "cuda" is "cuda:0", or the current GPU.
        self.train_device = resolve_device(train_device)
        self.offload_device = resolve_device(offload_device)
        self._table = table
        self._components = {
            name: _Component(
                network,
                frozenset(map(id, offloaded)),
                returns=_returns(table[name]),
                pins=pins and _waits(table[name]),
            )
            for name, network in components.items()
            if name in table
        }

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Move all components to where a phase needs them, and back on exit."""
        before = {name: component.placement for name, component in self._components.items()}
        try:
            self._arrange({component: self._table[component][name] for component in before})
            yield
        finally:
            self._arrange(before)

    def finish(self) -> None:
        """End all moves after the run: moving components back would only fill host memory."""
        self._components = {}

    def _arrange(self, placements: Mapping[str, Placement | None]) -> None:
        """Move the components that are elsewhere; first those that free memory."""
        moves = [
            (component, placement)
            for name, component in self._components.items()
            for placement in [placements[name]]
            if placement is not None and component.placement not in (placement, "nowhere")
        ]
        for component, placement in sorted(moves, key=lambda move: move[1] == "train"):
            component.move(placement, self._device(placement))

    def _device(self, placement: Placement) -> torch.device:
        match placement:
            case "train":
                return self.train_device
            case "offload":
                return self.offload_device
            case "nowhere":
                return torch.device("meta")


@dataclass
class _Component:
    """A component and its placement.

    offloaded: ids of parameters that never move. returns: whether it moves back and forth, so that
    its frozen weights stay on the offload device, too, and need not be copied back. pins: whether
    these are pinned.
    placement: None during a move.
    """

    network: nn.Module
    offloaded: frozenset[int]
    returns: bool
    pins: bool
    placement: Placement | None = "offload"
    _host_copies: dict[int, Tensor] = field(default_factory=dict)
    _packed: Packed | None = None

    def move(self, placement: Placement, device: torch.device) -> None:
        self.placement = None  # if an exception ends this, the next phase moves it again
        if self.pins and placement == "train" and device.type == "cuda":
            self._fetch_packed(device)
        for module in self.network.modules():
            for name, weight in module._parameters.items():
                if weight is not None and id(weight) not in self.offloaded:
                    self._move_parameter(module, name, weight, placement, device)
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[name] = buffer.to(device)
        self.placement = placement

    def _fetch_packed(self, device: torch.device) -> None:
        """Move the frozen weights in host memory, without waiting for the copy."""
        weights = [
            weight
            for weight in self.network.parameters()
            if not weight.requires_grad
            and id(weight) not in self.offloaded
            and weight.device.type == "cpu"
            and type(weight.data) is Tensor
        ]
        if not weights:
            return
        if self._packed is None or not self._packed.holds(weights):
            try:
                self._packed = Packed.of([weight.data for weight in weights])
            except RuntimeError:  # so much cannot be pinned: it waits as it is
                self.pins, self._packed = False, None
                return
        own = self._packed.tensors
        there = views_in(self._packed.memory.to(device, non_blocking=True), own)
        for weight, host, copy in zip(weights, own, there, strict=True):
            self._host_copies[id(weight)] = host
            weight.data = copy

    def _move_parameter(
        self,
        module: nn.Module,
        name: str,
        weight: nn.Parameter,
        placement: Placement,
        device: torch.device,
    ) -> None:
        if weight.device == device:
            return
        if placement == "nowhere" or type(weight.data) is not Tensor:
            # A tensor of another type (the meta device, quantized numbers) cannot become a
            # parameter's memory; nothing holds references to frozen parameters.
            assert not weight.requires_grad, "what trains is never freed"
            module._parameters[name] = nn.Parameter(weight.data.to(device), requires_grad=False)
            return
        data = weight.data
        host_copy = self._host_copies.pop(id(weight), None) if placement == "offload" else None
        # To CUDA's GPUs the processor waits only for its own part of the copy.
        non_blocking = device.type == "cuda"
        weight.data = data.to(device, non_blocking=non_blocking) if host_copy is None else host_copy
        if placement == "train" and self.returns and not weight.requires_grad:
            self._host_copies[id(weight)] = data


def _waits(row: Mapping[Phase, Placement]) -> bool:
    """Return whether a component comes and goes after caching."""
    return {"train", "offload"} <= {row[phase] for phase in PHASES[2:]}


def _returns(row: Mapping[Phase, Placement]) -> bool:
    """Return whether a component leaves the train device before the run ends."""
    return row["caching"] == "train" or len({row[phase] for phase in PHASES[2:]}) > 1


def move_module(module: nn.Module, device: torch.device, dtype: torch.dtype | None = None) -> None:
    """Move a new network to the device of its component permanently."""
    if dtype is None:
        module.to(device)  # diffusers' networks warn where a dtype is passed, even None
    else:
        module.to(device, dtype)
