"""What an optimizer has accumulated, for checkpoints: of each weight, and of each group.

Settings are not restored: learning rate, betas and decay are those of the config, which may have
been changed since. Restored is what the optimizer itself has written: statistics of each weight
(`state`), and whatever of a group is no longer as it was right after construction (counters,
Prodigy's d, schedule-free's sums of weights).
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from modules.formats.files.optimizer_state import Packer, unpack_entries, unpack_plain
from modules.optim.update import SET_OUTSIDE

LAYOUT = 2
GIVEN = "given"  # of a setting that is neither on nor off nor empty
PAGED = frozenset({"state1", "state2"})
"""The statistics that bitsandbytes keeps in memory which can be moved out of a card."""


@runtime_checkable
class _Paged(Protocol):
    """An optimizer of bitsandbytes, which may keep statistics in memory that can be moved out."""

    is_paged: bool

    def get_state_buffer(self, p: Tensor, dtype: torch.dtype) -> Tensor:
        """Memory for the statistics of a weight, of its shape."""


class OptimizerProgress:
    """Saves and restores an optimizer's progress; made right after the optimizer is.

    parameters: every trained weight by the name it has in checkpoints, in which order does not
    matter.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter]
    ) -> None:
        self._optimizer = optimizer
        self._parameters = dict(parameters)
        self._fresh = [
            {key: _frozen(value) for key, value in group.items() if key not in SET_OUTSIDE}
            for group in optimizer.param_groups
        ]

    def save(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The progress as named tensors and JSON."""
        packer = Packer()
        names = {weight: name for name, weight in self._parameters.items()}
        document = {
            "layout": LAYOUT,
            "optimizer": type(self._optimizer).__name__,
            "state": {
                name: packer.pack(dict(self._optimizer.state[weight]), f"state.{name}")
                for name, weight in self._parameters.items()
                if weight in self._optimizer.state
            },
            "groups": [
                {
                    "parameters": [names[weight] for weight in group["params"]],
                    "switches": _switches(self._fresh[number]),
                    "values": packer.pack(self._changed(number), f"groups.{number}"),
                }
                for number, group in enumerate(self._optimizer.param_groups)
            ],
        }
        return packer.tensors, document

    def load(self, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> list[str]:
        """Takes progress up, in the dtypes it was saved with; returns what there is to tell.

        Raises ValueError, KeyError or TypeError for what `save` has not written.
        """
        if document.get("layout") != LAYOUT:
            self._load_plain(tensors, document)
            return []
        if document["optimizer"] != type(self._optimizer).__name__:
            return [
                f"the checkpoint is of another optimizer ({document['optimizer']}); its statistics"
                " begin anew"
            ]
        if changed := self._changed_switches(document["groups"]):
            return [
                f"the optimizer's settings are no longer those of the checkpoint"
                f" ({', '.join(changed)}), and it would remember other things; its statistics"
                " begin anew"
            ]
        if all(weight.device.type == "cpu" for weight in self._parameters.values()):
            # Into memory of its own: what was read lies at any place within the file's bytes, and
            # on the processor a sum over numbers depends on where they begin in a cache line.
            tensors = {key: tensor.clone() for key, tensor in tensors.items()}
        groups = {w: group for group in self._optimizer.param_groups for w in group["params"]}
        for name, packed in document["state"].items():
            weight = self._parameters[name]
            entries = unpack_entries(packed, tensors)
            self._optimizer.state[weight] = self._placed(entries, weight, groups[weight])
        self._load_groups(tensors, document["groups"])
        return []

    def _load_groups(self, tensors: Mapping[str, Tensor], saved: list[dict[str, Any]]) -> None:
        """A group's progress is that of the group which its first weight was in."""
        packed = {name: group["values"] for group in saved for name in group["parameters"]}
        names = {weight: name for name, weight in self._parameters.items()}
        for group in self._optimizer.param_groups:
            first = group["params"][0]
            values = unpack_entries(packed[names[first]], tensors)
            # Copies, since tensors of groups are written to in place, and groups may be split.
            group.update({key: _frozen(_moved(v, first.device)) for key, v in values.items()})

    def _load_plain(self, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> None:
        state = unpack_plain(tensors, document)
        weights = [(w, group) for group in self._optimizer.param_groups for w in group["params"]]
        for number, entries in state.items():
            weight, group = weights[number]
            self._optimizer.state[weight] = self._placed(entries, weight, group)

    def _placed(
        self, entries: Mapping[str, Any], weight: nn.Parameter, group: Mapping[str, Any]
    ) -> dict[str, Any]:
        """A weight's statistics where the optimizer expects them: on the weight's device.

        torch keeps counters of steps in main memory, unless its kernel counts them on the device.
        """
        counts_on_device = bool(group.get("fused") or group.get("capturable"))
        placed: dict[str, Any] = {}
        for name, value in entries.items():
            if name in PAGED and (buffer := self._paged_buffer(weight, value.dtype)) is not None:
                placed[name] = buffer.copy_(value)
            elif name == "step" and not counts_on_device:
                placed[name] = value
            else:
                placed[name] = _moved(value, weight.device)
        return placed

    def _paged_buffer(self, weight: nn.Parameter, dtype: torch.dtype) -> Tensor | None:
        """Memory that can be moved out when the card is full; None if the optimizer needs none."""
        optimizer = self._optimizer
        is_on_card = weight.device.type != "cpu"
        if is_on_card and isinstance(optimizer, _Paged) and optimizer.is_paged:
            return optimizer.get_state_buffer(weight, dtype)
        return None

    def _changed_switches(self, saved: list[dict[str, Any]]) -> list[str]:
        """Those that are not as they were when a group's statistics began, by their names.

        A checkpoint from before they were kept has none, and is trusted.
        """
        then = {name: group.get("switches") for group in saved for name in group["parameters"]}
        names = {weight: name for name, weight in self._parameters.items()}
        changed: set[str] = set()
        for group, fresh in zip(self._optimizer.param_groups, self._fresh, strict=True):
            now = _switches(fresh)
            for weight in group["params"]:
                old = then.get(names[weight])
                if old is not None:
                    keys = old.keys() | now
                    changed |= {k for k in keys if old.get(k, GIVEN) != now.get(k, GIVEN)}
        return sorted(changed)

    def _changed(self, number: int) -> dict[str, Any]:
        fresh, group = self._fresh[number], self._optimizer.param_groups[number]
        return {
            key: value
            for key, value in group.items()
            if key not in SET_OUTSIDE and not (key in fresh and _is_same(fresh[key], value))
        }


def effective_lr(optimizer: torch.optim.Optimizer) -> float | Tensor:
    """The learning rate by which the first group's weights move in the coming step; a scalar.

    Optimizers that find the rate themselves multiply it by their estimate d (Mishchenko & Defazio
    2023, arXiv:2306.06101); some share one d among groups.
    """
    group = optimizer.param_groups[0]
    shared: float | Tensor | None = group.get("shared_d")
    estimate: float | Tensor = group.get("d", 1.0) if shared is None else shared
    rate: float | Tensor = group["lr"] * estimate
    # A copy, for the optimizer goes on to write to its own.
    return rate.detach().clone() if isinstance(rate, Tensor) else float(rate)


def _switches(group: Mapping[str, Any]) -> dict[str, object]:
    """Which of a group's settings are on, off, or empty, as JSON; the others are left out.

    On these depends what an optimizer remembers of a weight: Adafactor keeps a mean only where it
    has a beta 1. How large a number is does not count.
    """
    switches = {key: _switch(value) for key, value in group.items()}
    return {key: switch for key, switch in switches.items() if switch != GIVEN}


def _switch(value: object) -> object:
    match value:
        case bool() | None:
            return value
        case tuple() | list():
            entries = [_switch(entry) for entry in value]
            return GIVEN if all(entry == GIVEN for entry in entries) else entries
    return GIVEN


def _moved(value: object, device: torch.device) -> object:
    match value:
        case Tensor():
            return value.to(device)
        case list():
            return [_moved(entry, device) for entry in value]
        case tuple():
            return tuple(_moved(entry, device) for entry in value)
        case dict():
            return {name: _moved(entry, device) for name, entry in value.items()}
    return value


def _frozen(value: object) -> object:
    """A copy that later changes in place do not reach."""
    match value:
        case Tensor():
            return value.detach().clone()
        case list():
            return [_frozen(entry) for entry in value]
    return value


def _is_same(one: object, other: object) -> bool:
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return isinstance(one, Tensor) and isinstance(other, Tensor) and torch.equal(one, other)
    return type(one) is type(other) and bool(one == other)
