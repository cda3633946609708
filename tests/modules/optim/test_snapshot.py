"""A weight and its statistics, put back or left."""

import pytest
import torch
from torch import nn

from modules.optim.snapshot import WeightSnapshot

WRONG, RIGHT = torch.tensor(True), torch.tensor(False)


def known(state=None):
    """A weight of ones, and an optimizer that knows what is given of it."""
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    if state is not None:
        optimizer.state[weight] = state
    return weight, optimizer


@torch.no_grad()
def move(weight, optimizer):
    """What a step may do: in place, out of place, counted by the host, and state that is new."""
    weight += 1
    state = optimizer.state[weight]
    state["mean"] = state.get("mean", torch.zeros(3)) + 1
    state.setdefault("square", torch.zeros(3)).add_(1)
    state["count"] = state.get("count", 0) + 1
    state["later"] = torch.ones(3)


def restoring(kept, is_wrong):
    with torch.no_grad():
        kept.restore_where(is_wrong)
    if is_wrong:
        kept.without_copies().restore_host_state()


def test_after_a_wrong_update_everything_is_as_it_was():
    weight, optimizer = known({"mean": torch.ones(3), "square": torch.ones(3), "count": 7})
    kept = WeightSnapshot.take(weight, optimizer)
    move(weight, optimizer)
    restoring(kept, WRONG)
    assert weight.tolist() == [1.0] * 3
    state = optimizer.state[weight]
    assert state.keys() == {"mean", "square", "count"}
    assert state["mean"].tolist() == state["square"].tolist() == [1.0] * 3
    assert state["count"] == 7


def test_after_the_first_update_nothing_is_known_if_it_was_wrong():
    weight, optimizer = known()
    kept = WeightSnapshot.take(weight, optimizer)
    move(weight, optimizer)
    restoring(kept, WRONG)
    assert weight not in optimizer.state
    assert weight.tolist() == [1.0] * 3


@pytest.mark.parametrize("state", [None, {"mean": torch.ones(3), "count": 7}])
def test_a_right_update_stays_bit_for_bit(state):
    (weight, optimizer), (other, others) = (
        known(state and dict(state)),
        known(state and dict(state)),
    )
    kept = WeightSnapshot.take(weight, optimizer)
    for one, its in ((weight, optimizer), (other, others)):
        move(one, its)
    restoring(kept, RIGHT)
    assert torch.equal(weight, other)
    for name, value in others.state[other].items():
        found = optimizer.state[weight][name]
        assert found == value if name == "count" else torch.equal(found, value)
