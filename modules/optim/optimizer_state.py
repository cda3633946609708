"""Saving and restoring of optimizer state, for each weight and each parameter group.

Settings are not restored: learning rate, betas and weight decay are those of the config, which may
have changed. Restored is what the optimizer itself has written: the state of each weight
(`state`), and the values of groups that differ from those at construction (counters, Prodigy's d,
the weight sums of schedule-free optimizers).
"""

from collections.abc import Mapping, Set
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from modules.formats.files.optimizer_state import Packer, unpack_entries, unpack_plain
from modules.optim.update import EXTERNAL_KEYS

LAYOUT = 2
OTHER = "given"  # for a setting that is neither a boolean nor empty; stored in checkpoints
PAGED = frozenset({"state1", "state2"})
"""The state that bitsandbytes keeps in paged memory, which can be moved out of a GPU."""


@runtime_checkable
class _Paged(Protocol):
    """An optimizer of bitsandbytes, which may keep its state in paged memory."""

    is_paged: bool

    def get_state_buffer(self, p: Tensor, dtype: torch.dtype) -> Tensor:
        """Return memory for a weight's state, in the weight's shape."""


@runtime_checkable
class _TypedMean(Protocol):
    """An optimizer whose mean of updates has a dtype of its own: Adafactor."""

    momentum_dtype: torch.dtype


class Division(Protocol):
    """How weights are divided among processes, by their names."""

    def joined(self, name: str, own: Tensor) -> Tensor:
        """Return the whole of a tensor that has a weight's rows, in the first process."""
        ...

    def cut(self, name: str, whole: Tensor) -> Tensor:
        """Return this process's rows of a whole one."""
        ...


class OptimizerProgress:
    """Saves and restores an optimizer's state; constructed right after the optimizer.

    parameters: every trained weight by its name in checkpoints, in any order. division: How they
    are divided among processes, whose states are then joined and cut; None where they are whole.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        parameters: Mapping[str, nn.Parameter],
        division: Division | None = None,
    ) -> None:
        self._optimizer = optimizer
        self._parameters = dict(parameters)
        self._names = {weight: name for name, weight in self._parameters.items()}
        self._division = division
        self._initial = [
            {key: _copy(value) for key, value in group.items() if key not in EXTERNAL_KEYS}
            for group in optimizer.param_groups
        ]

    def save(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the state as named tensors and JSON."""
        packer = Packer()
        document = {
            "layout": LAYOUT,
            "optimizer": type(self._optimizer).__name__,
            "state": {
                name: packer.pack(
                    self._joined(name, self._optimizer.state[weight]), f"state.{name}"
                )
                for name, weight in self._parameters.items()
                if weight in self._optimizer.state
            },
            "groups": [
                {
                    "parameters": [self._names[weight] for weight in group["params"]],
                    "switches": _switches(self._initial[number]),
                    "values": packer.pack(self._changed(number), f"groups.{number}"),
                }
                for number, group in enumerate(self._optimizer.param_groups)
            ],
        }
        return packer.tensors, document

    def _joined(self, name: str, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return a weight's state, of the whole weight in the first process."""
        division = self._division
        if division is None:
            return dict(state)
        return {
            key: division.joined(name, value) if _has_rows(value) else value
            for key, value in state.items()
        }

    def byte_count(self) -> int:
        """Return the bytes of the state's tensors; those of the first step do not exist before."""
        values = (value for state in self._optimizer.state.values() for value in state.values())
        return sum(value.nbytes for value in values if isinstance(value, Tensor))

    def load(
        self,
        tensors: Mapping[str, Tensor],
        document: Mapping[str, Any],
        *,
        former: Set[str] = frozenset(),
    ) -> list[str]:
        """Restore state, in the dtypes it was saved with; return warnings.

        former: Names of weights that are no longer trained, whose state is left out.

        Raises:
            ValueError, KeyError, TypeError: `save` has not written these values.
        """
        if document.get("layout") != LAYOUT and former:  # by positions, which are others now
            return ["layers that nothing reads are no longer trained; the optimizer is reset"]
        if document.get("layout") != LAYOUT:
            self._load_plain(tensors, document)
            return []
        if document["optimizer"] != type(self._optimizer).__name__:
            return [
                f"the checkpoint is of another optimizer ({document['optimizer']}); its state"
                " is reset"
            ]
        if changed := self._changed_switches(document["groups"]):
            return [
                f"the optimizer's settings are no longer those of the checkpoint"
                f" ({', '.join(changed)}), so its state would differ; it is reset"
            ]
        is_on_cpu = all(weight.device.type == "cpu" for weight in self._parameters.values())
        if is_on_cpu and self._division is None:
            # Into memory of its own: the tensors that were read start anywhere in the file's
            # bytes, and on the CPU a sum depends on where they start in a cache line.
            tensors = {key: tensor.clone() for key, tensor in tensors.items()}
        groups = {w: group for group in self._optimizer.param_groups for w in group["params"]}
        for name, packed in document["state"].items():
            if name in former:
                continue
            weight = self._parameters[name]
            entries = unpack_entries(packed, tensors)
            self._optimizer.state[weight] = self._placed(entries, weight, groups[weight])
        self._load_groups(tensors, document["groups"])
        return []

    def _load_groups(self, tensors: Mapping[str, Tensor], saved: list[dict[str, Any]]) -> None:
        """Restore each group's values from the saved group of its first weight."""
        packed = {name: group["values"] for group in saved for name in group["parameters"]}
        for group in self._optimizer.param_groups:
            first = group["params"][0]
            values = unpack_entries(packed[self._names[first]], tensors)
            # Copies, since tensors of groups are written to in place, and groups may be split.
            group.update({key: _copy(_to_device(v, first.device)) for key, v in values.items()})

    def _load_plain(self, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> None:
        state = unpack_plain(tensors, document)
        weights = [(w, group) for group in self._optimizer.param_groups for w in group["params"]]
        for number, entries in state.items():
            weight, group = weights[number]
            self._optimizer.state[weight] = self._placed(entries, weight, group)

    def _placed(
        self, entries: Mapping[str, Any], weight: nn.Parameter, group: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return a weight's state where the optimizer expects it: on the weight's device.

        torch keeps step counters in host memory, unless its kernel counts them on the device.
        """
        if (division := self._division) is not None:
            name = self._names[weight]
            entries = {
                key: division.cut(name, value) if _has_rows(value) else value
                for key, value in entries.items()
            }
        counts_on_device = bool(group.get("fused") or group.get("capturable"))
        placed: dict[str, Any] = {}
        for name, value in entries.items():
            if name in PAGED and (buffer := self._paged_buffer(weight, value.dtype)) is not None:
                placed[name] = buffer.copy_(value)
            elif name == "step" and not counts_on_device:
                placed[name] = value
            elif name == "exp_avg" and isinstance(self._optimizer, _TypedMean):
                # As the optimizer itself does: in checkpoints of earlier versions it is bfloat16.
                placed[name] = value.to(weight.device, self._optimizer.momentum_dtype)
            else:
                placed[name] = _to_device(value, weight.device)
        return placed

    def _paged_buffer(self, weight: nn.Parameter, dtype: torch.dtype) -> Tensor | None:
        """Return paged memory on a GPU; None if the optimizer does not use it."""
        optimizer = self._optimizer
        is_on_gpu = weight.device.type != "cpu"
        if is_on_gpu and isinstance(optimizer, _Paged) and optimizer.is_paged:
            return optimizer.get_state_buffer(weight, dtype)
        return None

    def _changed_switches(self, saved: list[dict[str, Any]]) -> list[str]:
        """Return the names of the switches that changed since a group's state was created.

        Checkpoints of early versions have none, and are accepted.
        """
        before = {name: group.get("switches") for group in saved for name in group["parameters"]}
        changed: set[str] = set()
        for group, initial in zip(self._optimizer.param_groups, self._initial, strict=True):
            now = _switches(initial)
            for weight in group["params"]:
                old = before.get(self._names[weight])
                if old is not None:
                    old = {key: each for key, each in old.items() if key not in EXTERNAL_KEYS}
                    keys = old.keys() | now
                    changed |= {k for k in keys if old.get(k, OTHER) != now.get(k, OTHER)}
        return sorted(changed)

    def _changed(self, number: int) -> dict[str, Any]:
        initial, group = self._initial[number], self._optimizer.param_groups[number]
        return {
            key: value
            for key, value in group.items()
            if key not in EXTERNAL_KEYS and not (key in initial and _is_equal(initial[key], value))
        }


def _has_rows(value: object) -> bool:
    """Return whether an entry of a weight's state has the weight's shape: all but counters do.

    So it is with optimizers that update each number by itself; others are never divided.
    """
    return isinstance(value, Tensor) and value.ndim > 0


def _switches(group: Mapping[str, Any]) -> dict[str, object]:
    """Return which of a group's settings are on, off, or empty, as JSON; leave out the others.

    They determine which state an optimizer keeps for a weight: Adafactor keeps a mean only if it
    has a beta 1. The values of numbers do not matter.
    """
    switches = {key: _switch(value) for key, value in group.items()}
    return {key: switch for key, switch in switches.items() if switch != OTHER}


def _switch(value: object) -> object:
    match value:
        case bool() | None:
            return value
        case tuple() | list():
            entries = [_switch(entry) for entry in value]
            return OTHER if all(entry == OTHER for entry in entries) else entries
    return OTHER


def _to_device(value: object, device: torch.device) -> object:
    return tree_map_only(Tensor, lambda tensor: tensor.to(device), value)


def _copy(value: object) -> object:
    """Return a copy that is safe from later changes in place."""
    return tree_map_only(Tensor, lambda tensor: tensor.detach().clone(), value)


def _is_equal(first: object, second: object) -> bool:
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return torch.equal(first, second)
    return type(first) is type(second) and bool(first == second)
