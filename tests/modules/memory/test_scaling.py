"""The loss scale of fp16, compared with torch's own."""

import json

import torch

from modules.memory.scaling import GROWTH_INTERVAL, MAX_SCALE, LossScale
from tests import pretend
from tests.each import each

LOSS = torch.tensor(1e-4)


def torchs(scale=2.0**16):
    """torch's own, with the loss scaled once, which is when it makes its tensors."""
    made = torch.amp.GradScaler("cpu", init_scale=scale)
    made.scale(LOSS)
    return made


def after(made, has_overflown):
    """A step of torch's, whose one gradient overflows or does not."""
    weight = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    weight.grad = torch.full((3,), float("inf") if has_overflown else made.get_scale())
    made.unscale_(optimizer)
    made.step(optimizer)
    made.update()


@each("seed", range(3))
def test_it_grows_and_falls_as_torchs_own(seed):
    ours, theirs = LossScale(), torchs()
    draws = torch.rand(60, generator=torch.Generator().manual_seed(seed))
    for number, draw in enumerate(draws):
        if number % 10 == 0:  # nearly two thousand good steps at once
            good = {**ours.state_dict(), "_growth_tracker": GROWTH_INTERVAL - 2}
            ours.load_state_dict(good)
            theirs.load_state_dict(good)
            theirs.scale(LOSS)
        ours.update(bool(draw < 0.3))
        after(theirs, bool(draw < 0.3))
        assert ours.state_dict() == theirs.state_dict()
    assert ours.scale != 2.0**16


@each("power", [0, 16, 24, -3])
def test_loss_and_gradients_are_torchs_own_bit_for_bit(power):
    ours, theirs = LossScale(), torchs(2.0**power)
    ours.load_state_dict({**ours.state_dict(), "scale": 2.0**power})
    assert torch.equal(ours.scaled(LOSS), theirs.scale(LOSS))
    gradients = [torch.randn(5), torch.randn(2, 3).to(torch.bfloat16), torch.zeros(0)]
    weights = [torch.nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients]
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = gradient.clone()
    theirs.unscale_(torch.optim.SGD(weights, lr=1.0))
    assert ours.unscale(gradients).item() == 0
    assert all(torch.equal(g, w.grad) for g, w in zip(gradients, weights, strict=True))


@each("wrong", [float("inf"), -float("inf"), float("nan")])
@each("place", [0, 1, 2])
def test_a_single_number_that_overflows_is_seen(wrong, place):
    gradients = [torch.ones(5), torch.ones(7), torch.ones(9, dtype=torch.bfloat16)]
    gradients[place][3] = wrong
    assert LossScale().unscale(gradients).item() > 0


def test_without_gradients_nothing_overflows():
    assert LossScale().unscale([]).item() == 0


@each("wrong", [None, 0, 1])
@each("places", [("cuda", "cpu"), ("cpu", "cuda")])
def test_gradients_may_be_in_two_places_and_nothing_is_read(places, wrong):
    with pretend.accelerator() as gpu:
        gradients = [torch.ones(3, device=place) for place in places]
        if wrong is not None:
            gradients[wrong].fill_(float("inf"))
        gpu.syncs.clear()
        overflows = LossScale().unscale(gradients)
        assert gpu.syncs == []
        assert pretend.device_of(overflows).type == "cuda"
        assert gpu.to_host.count == 0
        assert (overflows.item() > 0) is (wrong is not None)


def test_it_never_grows_beyond_what_a_loss_can_be():
    made = LossScale()
    state = made.state_dict() | {"scale": 2.0**127, "_growth_tracker": GROWTH_INTERVAL - 1}
    made.load_state_dict(state)
    made.update(has_overflown=False)
    assert made.scale == 2.0**127 <= MAX_SCALE
    assert made.state_dict()["_growth_tracker"] == 0


def test_a_state_comes_back_through_json_and_from_torchs_own():
    theirs = torchs()
    after(theirs, has_overflown=True)
    made = LossScale()
    made.load_state_dict(json.loads(json.dumps(theirs.state_dict())))
    assert made.state_dict() == theirs.state_dict()
    assert made.scale == 2.0**15
