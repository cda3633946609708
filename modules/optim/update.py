"""Optimizer steps: all weights together, in chunks, or some at a time."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from modules.optim.rounding_noise import Extent, RoundingNoise
from modules.optim.snapshot import WeightSnapshot
from modules.optim.stochastic_rounding import in_float32, stochastic_rounding

HOST = torch.device("cpu")
EXTERNAL_KEYS = frozenset({"params", "lr", "base_lr", "initial_lr", "part", "capturable"})
"""Keys of groups that no optimizer writes to: set at construction, and before steps."""
MAX_FLOAT32_WEIGHTS = 1 << 27
"""bfloat16 weights that are float32 at once while they are updated: half a gigabyte."""


class WeightUpdater:
    """Runs an optimizer's steps, with stochastic rounding of bfloat16 weights if wanted.

    Args:
        optimizer: Its `param_groups` must stay the same dictionaries.
        rounding_seed: None leaves the rounding of bfloat16 to the optimizer, to the nearest.
        updates_independently: Whether the optimizer updates each weight from that weight's own
            gradient and history only.
        skips_zero_rates: Whether steps whose learning rate is 0 are not made: they move no weight,
            but the optimizer would count them.
        extents: Of parameters that are a part of a weight; None where all are whole.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        rounding_seed: int | None,
        updates_independently: bool,
        skips_zero_rates: bool = False,
        extents: Mapping[nn.Parameter, Extent] | None = None,
    ) -> None:
        self.optimizer = optimizer
        self._skips_zero_rates = skips_zero_rates
        self.updates_independently = updates_independently
        self._seed = rounding_seed
        self._step = 0
        self._noise: RoundingNoise | None = None
        self._numbers: dict[nn.Parameter, int] = {}
        self._groups: dict[nn.Parameter, int] = {}
        for index, group in enumerate(optimizer.param_groups):
            for weight in group["params"]:
                self._numbers[weight] = len(self._numbers)
                self._groups[weight] = index
        self._parameters = list(self._numbers)
        self._extents = {w: Extent(0, w.numel()) for w in self._numbers} | dict(extents or {})
        # Of this step: each group's values before and after it.
        self._before: dict[int, dict[str, Any]] = {}
        self._after: dict[int, dict[str, Any]] = {}

    @property
    def parameters(self) -> list[nn.Parameter]:
        """Every weight, in the optimizer's order."""
        return self._parameters

    @property
    def rounds_to_nearest(self) -> bool:
        """Whether small updates of weights in 16 bits are lost."""
        return self._seed is None

    def begin(self, step: int) -> None:
        """Set the number of the next step, from 0, after the learning rates are set."""
        self._step = step
        self._noise = None
        self._before, self._after = {}, {}

    def takes_divisor(self, device: torch.device) -> bool:
        """Return whether the optimizer's kernels divide gradients by a scalar on a device.

        Not those of weights on another device: they would not wait for the scalar. It is in host
        memory only if all gradients are.
        """
        if not self._has_fused_kernels:
            return False
        return device == HOST or all(weight.device == device for weight in self._parameters)

    def update_all(self, broken: Tensor | None = None, divisor: Tensor | None = None) -> None:
        """Update every weight that has a gradient, unless the step is broken.

        A broken step changes neither weights nor their state on the device. Counters in host memory
        may count it: that is decided by optimizer and device alone, so results are reproducible.

        broken: A float32 scalar, 1 if the step is broken, otherwise 0; None if it is known not to
            be. It is read where reading costs nothing, or the step waits for the GPU anyway: on the
            CPU, of weights in host memory, and of optimizers whose steps depend on all gradients.
        divisor: Scalar that gradients are divided by, for optimizers that can; None for 1.
        """
        if self._skips_zero_rates and all(not g["lr"] for g in self.optimizer.param_groups):
            return
        if broken is not None and self._reads_first(self.parameters):
            if broken.item():
                return
            broken = None
        needs_chunks = self._seed is not None or not (broken is None or self._has_fused_kernels)
        if not (needs_chunks and self.updates_independently):
            with self._rounding(self.parameters), self._flagged(broken, divisor):
                self.optimizer.step()
        else:
            # In chunks, so that not all weights are float32, or copied, at once.
            for index, group in enumerate(self.optimizer.param_groups):
                for chunk in chunked(group["params"]):
                    self._update(chunk, index, broken, divisor)
        self._noise = None  # frees its memory

    @property
    def reads(self) -> str:
        """What a step reads on the host, in words; empty if nothing, by `update_unread`."""
        if self._seed is not None:
            return "stochastic rounding is drawn for each step"
        # SGD's momentum would begin as uninitialized memory in a broken first step.
        if not (self._has_fused_kernels and isinstance(self.optimizer, torch.optim.Adam)):
            return "this optimizer computes a part on the host; a fused AdamW or Adam does not"
        return ""

    def update_unread(self, broken: Tensor, divisor: Tensor | None = None) -> None:
        """Update every weight that has a gradient, unless the step is broken; read nothing."""
        with self._flagged(broken, divisor):
            self.optimizer.step()

    def update_some(self, weights: Sequence[nn.Parameter], broken: Tensor | None = None) -> None:
        """Update some weights on one device; call `finish` after all of them.

        broken: As in `update_all`, on the weights' device.
        """
        if broken is not None and self._reads_first(weights):
            if broken.item():
                return
            broken = None
        by_group: dict[int, list[nn.Parameter]] = {}
        for weight in weights:
            by_group.setdefault(self._groups[weight], []).append(weight)
        for index, own in by_group.items():
            self._update(own, index, broken)

    def finish(self) -> None:
        """Run the step of groups without an updated weight: some count their steps."""
        for index, group in enumerate(self.optimizer.param_groups):
            if index not in self._after:
                self._update(group["params"], index)
        self._noise = None

    def rewind_counters(
        self, *, updated: Collection[nn.Parameter], restored: Collection[nn.Parameter]
    ) -> None:
        """Undo this step's counting in groups all of whose updates were undone.

        updated, restored: every weight with a gradient, by whether its update was kept.
        """
        kept = {self._groups[weight] for weight in updated}
        for index in {self._groups[weight] for weight in restored} - kept:
            _set_values(self.optimizer.param_groups[index], self._before[index])

    def in_float32(self) -> AbstractContextManager[None]:
        """Return a context in which weights with stochastic rounding are float32."""
        if self._seed is None:
            return nullcontext()
        return in_float32({number: weight for weight, number in self._numbers.items()})

    def _rounding(self, weights: Sequence[nn.Parameter]) -> AbstractContextManager[None]:
        if self._seed is None:
            return nullcontext()
        if self._noise is None:
            sizes = [self._extents[weight].size for weight in self._numbers]
            self._noise = RoundingNoise(
                self._seed,
                self._step,
                weights=sum(sizes),
                largest=max(sizes),
                firsts={n: self._extents[weight].first for weight, n in self._numbers.items()},
            )
        numbered = {self._numbers[weight]: weight for weight in weights}
        return stochastic_rounding(numbered, self._noise)

    def _reads_first(self, weights: Sequence[nn.Parameter]) -> bool:
        """Return whether the flag of a broken step is read before weights are updated."""
        if not self.updates_independently or any(w.device == HOST for w in weights):
            return True
        optimizer = self.optimizer
        is_sgd = isinstance(optimizer, torch.optim.SGD)
        if (self._has_fused_kernels and not is_sgd) or (
            is_sgd and not optimizer.defaults["momentum"]
        ):
            return False
        # The first update creates a weight's state, which no snapshot can restore; SGD's momentum
        # would stay uninitialized memory.
        return any(w.grad is not None and not optimizer.state.get(w) for w in weights)

    @property
    def _has_fused_kernels(self) -> bool:
        """Whether kernels skip a broken step and divide gradients: fused Adam's and SGD's."""
        has_kernels = isinstance(self.optimizer, torch.optim.Adam | torch.optim.SGD)
        return has_kernels and all(group.get("fused") for group in self.optimizer.param_groups)

    @contextmanager
    def _flagged(self, broken: Tensor | None, divisor: Tensor | None) -> Iterator[None]:
        """Hand both to kernels that take them, by the names that GradScaler uses, too."""
        given = {"found_inf": broken, "grad_scale": divisor} if self._has_fused_kernels else {}
        given = {name: value for name, value in given.items() if value is not None}
        vars(self.optimizer).update(given)
        try:
            yield
        finally:
            for name in given:
                del vars(self.optimizer)[name]

    def _update(
        self,
        weights: Sequence[nn.Parameter],
        index: int,
        broken: Tensor | None = None,
        divisor: Tensor | None = None,
    ) -> None:
        """Run the optimizer's step as if a group had no weights but these.

        The group is looked up each time. Its counters are reset to those before the step for each
        call, and have counted once after the last.
        """
        snapshots = []
        if broken is not None and not self._has_fused_kernels:
            updated = [weight for weight in weights if weight.grad is not None]
            snapshots = [WeightSnapshot.take(weight, self.optimizer) for weight in updated]
        groups = self.optimizer.param_groups
        group, all_weights = groups[index], groups[index]["params"]
        before = self._before.setdefault(index, _values(group))
        _set_values(group, before)
        group["params"] = list(weights)
        self.optimizer.param_groups = [group]
        try:
            with self._rounding(weights), self._flagged(broken, divisor):
                self.optimizer.step()
        finally:
            group["params"] = all_weights
            self.optimizer.param_groups = groups
        if snapshots and broken is not None:
            is_broken = broken > 0
            with torch.no_grad():
                for snapshot in snapshots:
                    snapshot.restore_where(is_broken)
        after = self._after.setdefault(index, _values(group))
        assert after == _values(group), "this optimizer does not update weights independently"


def chunked(weights: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Split weights, in their order, into chunks of at most `MAX_FLOAT32_WEIGHTS`."""
    chunk: list[nn.Parameter] = []
    size = 0
    for weight in weights:
        if chunk and size + weight.numel() > MAX_FLOAT32_WEIGHTS:
            yield chunk
            chunk, size = [], 0
        chunk.append(weight)
        size += weight.numel()
    if chunk:
        yield chunk


def _set_values(group: dict[str, Any], values: dict[str, Any]) -> None:
    """Reset what the optimizer may count in a group."""
    for key in _values(group).keys() - values.keys():
        del group[key]
    group.update(values)


def _values(group: dict[str, Any]) -> dict[str, Any]:
    """Return what the optimizer may count in a group."""
    values = {key: value for key, value in group.items() if key not in EXTERNAL_KEYS}
    assert not any(isinstance(value, Tensor) for value in values.values())
    return values
