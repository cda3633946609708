"""One step of an optimizer: all weights together, some at a time, or each alone."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from modules.optim.stochastic_rounding import rounded, widened

SET_OUTSIDE = frozenset({"params", "lr", "base_lr", "initial_lr", "part"})
"""Keys of groups that no optimizer writes to: they are set when it is built, and before steps."""
MOST_AT_ONCE = 1 << 26
"""So many bfloat16 weights are float32 at once while they move: a quarter of a gigabyte."""


class Movement:
    """Moves an optimizer's weights, and rounds those in bfloat16 as asked.

    optimizer: whose `param_groups` stay the same dictionaries. rounding_seed: None leaves the
    rounding of bfloat16 to the optimizer, which is to the nearest. moves_alone: whether the
    optimizer moves each weight by that weight's own gradient and history only.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, *, rounding_seed: int | None, moves_alone: bool
    ) -> None:
        self.optimizer = optimizer
        self.moves_alone = moves_alone
        self._seed = rounding_seed
        self._step = 0
        self._numbers: dict[nn.Parameter, int] = {}
        self._groups: dict[nn.Parameter, int] = {}
        for index, group in enumerate(optimizer.param_groups):
            for weight in group["params"]:
                self._numbers[weight] = len(self._numbers)
                self._groups[weight] = index
        # Of this step: what each group held before, and holds after.
        self._before: dict[int, dict[str, Any]] = {}
        self._after: dict[int, dict[str, Any]] = {}

    @property
    def parameters(self) -> list[nn.Parameter]:
        """Every weight, in the optimizer's order."""
        return list(self._numbers)

    def begin(self, step: int) -> None:
        """Says which step is next, from 0, after the learning rates are set."""
        self._step = step
        self._before, self._after = {}, {}

    def move_all(self) -> None:
        """Moves every weight that has a gradient."""
        if self._seed is None or not self.moves_alone:
            with self.rounding():
                self.optimizer.step()
            return
        # In portions, so that not all weights are float32 at once.
        for index, group in enumerate(self.optimizer.param_groups):
            for portion in portions(group["params"]):
                self._move(portion, index)

    def move_one(self, weight: nn.Parameter) -> None:
        """Moves a single weight; `finish` follows when all have moved."""
        self._move([weight], self._groups[weight])

    def finish(self) -> None:
        """Makes the step of groups of which no weight has moved: some count their steps."""
        for index, group in enumerate(self.optimizer.param_groups):
            if index not in self._after:
                self._move(group["params"], index)

    def count_only_for(
        self, right: Collection[nn.Parameter], wrong: Collection[nn.Parameter]
    ) -> None:
        """Takes back what groups have counted in this step, if all moves of theirs were wrong.

        right, wrong: every weight that has moved, by whether its move was left in place.
        """
        for index in {self._groups[weight] for weight in wrong}:
            if index not in {self._groups[weight] for weight in right}:
                _set_values(self.optimizer.param_groups[index], self._before[index])

    def rounding(self) -> AbstractContextManager[None]:
        """Around `optimizer.step` for all weights."""
        return self._rounding(self.parameters)

    def widened(self) -> AbstractContextManager[None]:
        """All weights in the dtype that their statistics have, where rounding is by chance."""
        if self._seed is None:
            return nullcontext()
        return widened({number: weight for weight, number in self._numbers.items()})

    def _rounding(self, weights: Sequence[nn.Parameter]) -> AbstractContextManager[None]:
        if self._seed is None:
            return nullcontext()
        numbered = {self._numbers[weight]: weight for weight in weights}
        return rounded(numbered, seed=self._seed, step=self._step)

    def _move(self, weights: Sequence[nn.Parameter], index: int) -> None:
        """Makes the optimizer's step with these weights of a group as if there were no others.

        The group is looked up anew each time. Its counters are as before the step for each of its
        weights, and have been counted once when all have moved.
        """
        groups = self.optimizer.param_groups
        group, whole = groups[index], groups[index]["params"]
        before = self._before.setdefault(index, _values(group))
        _set_values(group, before)
        group["params"] = list(weights)
        self.optimizer.param_groups = [group]
        try:
            with self._rounding(weights):
                self.optimizer.step()
        finally:
            group["params"] = whole
            self.optimizer.param_groups = groups
        after = self._after.setdefault(index, _values(group))
        assert after == _values(group), "this optimizer does not move each weight alone"


def portions(weights: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """The weights in their order, some at a time."""
    portion: list[nn.Parameter] = []
    size = 0
    for weight in weights:
        if portion and size + weight.numel() > MOST_AT_ONCE:
            yield portion
            portion, size = [], 0
        portion.append(weight)
        size += weight.numel()
    if portion:
        yield portion


def _set_values(group: dict[str, Any], values: dict[str, Any]) -> None:
    """Makes what the optimizer counts in a group what it was."""
    for key in _values(group).keys() - values.keys():
        del group[key]
    group.update(values)


def _values(group: dict[str, Any]) -> dict[str, Any]:
    """What the optimizer may count in a group."""
    values = {key: value for key, value in group.items() if key not in SET_OUTSIDE}
    assert not any(isinstance(value, Tensor) for value in values.values())
    return values
