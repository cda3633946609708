"""Layers that are computed in another manner: which of them, and back again."""

import itertools

import torch
from torch import nn

from modules.memory.layers.layers import LayerSettings, spread_evenly
from tests import tiny
from tests.each import each
from tests.managed import Calls, Journeys, checkpoint, manage

ALL = LayerSettings(checkpointing="block", offload=1.0, activations=1.0)


def layers(*widths):
    return {"part": [nn.Linear(width, 4, bias=False) for width in widths]}


@each("fraction", [0.0, 0.1, 0.25, 0.5, 0.7, 0.9, 1.0])
@each("sizes", [[1] * 12, [8, 8, 2, 2, 2, 64, 1, 64, 2, 2, 8, 8], [5]])
def test_what_is_chosen_reaches_the_fraction_at_every_point_and_exceeds_it_by_less_than_one(
    sizes, fraction
):
    chosen = spread_evenly(sizes, fraction)
    taken = [size * is_chosen for size, is_chosen in zip(sizes, chosen, strict=True)]
    for sum_taken, total in zip(
        itertools.accumulate(taken), itertools.accumulate(sizes), strict=True
    ):
        assert fraction * total <= sum_taken
    assert sum(taken) == 0 or sum(taken) - max(taken) < fraction * sum(sizes)


def test_nothing_waits_where_both_devices_are_the_same():
    own, journeys = layers(4, 4), Journeys()
    managed = manage(own, ALL, journeys, is_apart=False)
    own["part"][0](own["part"][1](torch.ones(1, 4))).sum().backward()
    assert managed.offloaded == frozenset()
    assert journeys.fetched == journeys.sent == journeys.announced == []


def test_offloaded_layers_are_checkpointed_and_others_are_as_they_were():
    own = layers(*[4] * 4)["part"]
    forwards = [layer.forward for layer in own]
    manage({"part": own}, LayerSettings(activations=0.5))
    managed = [layer.forward != forward for layer, forward in zip(own, forwards, strict=True)]
    assert managed == [True, False, True, False]


def test_managing_twice_is_managing_once():
    own = {"part": [nn.Sequential(nn.Linear(4, 4), nn.Tanh())]}
    calls, journeys = Calls(own["part"][0][0]), Journeys()
    manage(own, ALL)
    manage(own, ALL, journeys)
    own["part"][0](torch.ones(2, 4)).sum().backward()
    assert calls.count == 2
    assert len(journeys.fetched) == 2 * 2 + 1  # weight and bias, twice, and the input


def test_undone_layers_are_as_they_were_also_if_they_had_a_forward_of_their_own():
    plain, patched = layers(4, 4)["part"]
    patched.forward = own = lambda x: x + 1
    managed = manage({"part": [plain, patched]}, ALL)
    assert torch.equal(patched(torch.ones(1, 4)), torch.full((1, 4), 2.0))
    managed.undo()
    managed.undo()
    assert "forward" not in vars(plain)
    assert patched.forward is own


def test_names_and_states_of_weights_stay_the_same():
    family = tiny.family()
    names = list(family.unet.state_dict())
    checkpoint(family)
    manage(family, ALL)
    assert list(family.unet.state_dict()) == names
