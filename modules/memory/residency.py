"""Which part of a model is on which device in which phase of a run: the one place that moves them.

Parts wait on the temporary device while nothing needs them, and are on the train device while
something does. A phase is a context: leaving it, also by an exception, puts everything back.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from modules.memory.layers.checkpointing import resolved

Phase = Literal[
    "loading", "caching", "training", "validation", "encoding", "drawing", "decoding", "saving"
]
Place = Literal["train", "temp", "nowhere"]
Enter = Callable[[Phase], AbstractContextManager[None]]
"""Begins a phase; `Residency.phase` where there is one."""

PHASES: tuple[Phase, ...] = (
    "loading",
    "caching",
    "training",
    "validation",
    "encoding",
    "drawing",
    "decoding",
    "saving",
)
METHOD = "method"
"""The part that is no network of the model: adapters, and the vectors of words."""
REWARDS = "rewards"
"""The networks that score pictures in reward training."""
OPTIMIZER, AVERAGE = "optimizer", "average"
"""What comes into being with the training: the optimizer's statistics, the weights' average."""


@dataclass(frozen=True)
class Needs:
    """What of a run decides where its parts are.

    encoders: the text encoders' names. trained: the networks whose own weights train.
    predicts: whether a step asks the UNet. encodes_pictures, encodes_text: in every step, and not
    beforehand. draws: whether samples may be asked for. encodes_blanks: whether empty pictures are
    encoded beforehand, as UNets for inpainting ask for them. average: where the weights' average is
    kept; None where there is none. scores: whether steps decode pictures and score them.
    """

    encoders: Sequence[str]
    trained: Collection[str]
    predicts: bool
    encodes_images: bool
    encodes_text: bool
    draws: bool
    encodes_blanks: bool = False
    average: Place | None = None
    scores: bool = False


def places(needs: Needs) -> dict[str, dict[Phase, Place]]:
    """Where each part is to be in each phase.

    What trains is on the train device from the first step on, since its statistics are. A part that
    nothing asks for after the caching is nowhere: its memory is given back.
    """
    table = {
        "unet": _unet_phases(needs),
        "vae": _vae_phases(needs),
        METHOD: _AFTER_CACHING,
        REWARDS: _TRAINING if needs.scores else _NEVER,
        **dict.fromkeys(needs.encoders, _encoder_phases(needs)),
    }
    rows = {
        part: _row(phases | (_AFTER_CACHING if part in needs.trained else _NEVER))
        for part, phases in table.items()
    }
    return {**rows, OPTIMIZER: _made_row("train"), AVERAGE: _made_row(needs.average)}


_STEPS: frozenset[Phase] = frozenset({"training", "validation"})
_AFTER_CACHING: frozenset[Phase] = frozenset(PHASES[2:])
_CACHING: frozenset[Phase] = frozenset({"caching"})
_TRAINING: frozenset[Phase] = frozenset({"training"})
_NEVER: frozenset[Phase] = frozenset()


def _unet_phases(needs: Needs) -> frozenset[Phase]:
    if needs.predicts:
        return _AFTER_CACHING  # moving it for each sample would take longer than decoding one
    return frozenset({"drawing"}) if needs.draws else _NEVER


def _vae_phases(needs: Needs) -> frozenset[Phase]:
    steps = _STEPS if needs.encodes_images else _CACHING
    blanks = _CACHING if needs.encodes_blanks else _NEVER
    decodes = _TRAINING if needs.scores else _NEVER
    return steps | decodes | blanks | (frozenset[Phase]({"decoding"}) if needs.draws else _NEVER)


def _encoder_phases(needs: Needs) -> frozenset[Phase]:
    steps = _STEPS if needs.encodes_text else _CACHING
    return steps | (frozenset[Phase]({"encoding"}) if needs.draws else _NEVER)


def _made_row(place: Place | None) -> dict[Phase, Place]:
    """Of what is made for the training; None of what is not made."""
    row: dict[Phase, Place] = dict.fromkeys(PHASES, "nowhere")
    if place is not None:
        row |= dict.fromkeys(PHASES[2:], place)
    return row


def _row(wanted: frozenset[Phase]) -> dict[Phase, Place]:
    rest: Place = "temp" if wanted & _AFTER_CACHING else "nowhere"
    row: dict[Phase, Place] = dict.fromkeys(PHASES[:2], "temp")
    row |= dict.fromkeys(PHASES[2:], rest)
    row |= dict.fromkeys(wanted, "train")
    return row


class Residency:
    """Moves parts between the train device and the temporary one, as the phase wants it.

    table: as `places` gives it. parts: the networks by their names there; those that are missing
    from either are left alone. All are on the temporary device when it is made.
    waiting: parameters that stay on the temporary device in every phase, because whoever computes
    with them fetches them.
    """

    def __init__(
        self,
        table: Mapping[str, Mapping[Phase, Place]],
        parts: Mapping[str, nn.Module],
        *,
        train_device: torch.device,
        offload_device: torch.device,
        waiting: Collection[nn.Parameter] = (),
    ) -> None:
        # As tensors tell it: "cuda" is "cuda:0", or whichever card is the current one.
        self.train_device, self.offload_device = resolved(train_device), resolved(offload_device)
        self.current: Phase = "loading"
        self._table = table
        self._guests = {
            name: _Guest(part, frozenset(map(id, waiting)), _returns(table[name]))
            for name, part in parts.items()
            if name in table
        }

    def place_of(self, part: str) -> Place | None:
        """Where a part is now; None if it was stopped on its way."""
        return self._guests[part].place

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Meanwhile every part is where the phase wants it; afterwards where it was before."""
        before = self.current, {part: guest.place for part, guest in self._guests.items()}
        self.current = name
        try:
            self._arrange({part: self._table[part][name] for part in self._guests})
            yield
        finally:
            self.current = before[0]
            self._arrange(before[1])

    def finish(self) -> None:
        """The run is over: nothing is put back any more, which would only fill main memory."""
        self._guests = {}

    def _arrange(self, wanted: Mapping[str, Place | None]) -> None:
        """Moves what is elsewhere than wanted; first what makes room."""
        moves = [
            (guest, place)
            for part, guest in self._guests.items()
            for place in [wanted[part]]
            if place is not None and guest.place not in (place, "nowhere")
        ]
        for guest, place in sorted(moves, key=lambda move: move[1] == "train"):
            guest.move(place, self._device(place))

    def _device(self, place: Place) -> torch.device:
        match place:
            case "train":
                return self.train_device
            case "temp":
                return self.offload_device
            case "nowhere":
                return torch.device("meta")


@dataclass
class _Guest:
    """A part, and where it is.

    waiting: ids of parameters that stay where they are. returns: whether it goes to and fro, so
    that what does not change is kept on the temporary device meanwhile and need not be copied back.
    place: None while it is between two.
    """

    part: nn.Module
    waiting: frozenset[int]
    returns: bool
    place: Place | None = "temp"
    _kept: dict[int, Tensor] = field(default_factory=dict)

    def move(self, place: Place, device: torch.device) -> None:
        self.place = None  # on its way: whatever ends this, it is moved again
        for module in self.part.modules():
            for name, weight in module._parameters.items():
                if weight is not None and id(weight) not in self.waiting:
                    self._move_parameter(module, name, weight, place, device)
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[name] = buffer.to(device)
        self.place = place

    def _move_parameter(
        self, module: nn.Module, name: str, weight: nn.Parameter, place: Place, device: torch.device
    ) -> None:
        if weight.device == device:
            return
        if place == "nowhere" or type(weight.data) is not Tensor:
            # Another kind of tensor (the meta device, quantised numbers) cannot become a
            # parameter's memory; nothing holds on to parameters that do not train.
            assert not weight.requires_grad, "what trains is never put away"
            module._parameters[name] = nn.Parameter(weight.data.to(device), requires_grad=False)
            return
        here = weight.data
        kept = self._kept.pop(id(weight), None) if place == "temp" else None
        # To a card the processor waits for its own part of the copy only.
        ahead = device.type != "cpu"
        weight.data = here.to(device, non_blocking=ahead) if kept is None else kept
        if place == "train" and self.returns and not weight.requires_grad:
            self._kept[id(weight)] = here


def _returns(row: Mapping[Phase, Place]) -> bool:
    """Whether a part leaves the train device again before the run ends."""
    return row["caching"] == "train" or len({row[phase] for phase in PHASES[2:]}) > 1


def put(module: nn.Module, device: torch.device, dtype: torch.dtype | None = None) -> None:
    """Puts a network that was just made on the device where its part is; for good."""
    if dtype is None:
        module.to(device)  # diffusers' networks warn where a format is named, even None
    else:
        module.to(device, dtype)
