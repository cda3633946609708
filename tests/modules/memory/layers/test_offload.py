"""Layers whose weights wait elsewhere compute the same, and their gradients come home."""

import torch
from torch import nn

from modules.memory.layers.layers import LayerSettings
from modules.methods.original_weights import OriginalWeights
from tests.each import each
from tests.managed import Journeys, manage

HALF, WHOLE = LayerSettings(offload=0.5), LayerSettings(offload=1.0)


class Journal(Journeys):
    """Also counts the bytes of fetched copies that are alive now, and at most."""

    def __init__(self):
        super().__init__()
        self.copies = []
        self.most = 0

    def to_device(self, tensor):
        copy = super().to_device(tensor)
        self.copies.append(torch.multiprocessing.reductions.StorageWeakRef(copy.untyped_storage()))
        self.most = max(self.most, self.alive)
        return copy

    @property
    def alive(self):
        return sum(not copy.expired() for copy in self.copies)


def block(width=6):
    return nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.Tanh())


def stack(count=5, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(*[block() for _ in range(count)])


def data(seed=0):
    return torch.randn(3, 6, generator=torch.Generator().manual_seed(seed))


def gradients(net):
    return [None if weight.grad is None else weight.grad.clone() for weight in net.parameters()]


def managed(settings, journeys=None, **options):
    net = stack(**options)
    manage({"net": list(net)}, settings, journeys)
    return net


@each("settings", [HALF, WHOLE])
@each("precision", [None, torch.bfloat16, torch.float16])
def test_trained_weights_get_their_gradients_where_they_wait(settings, precision):
    found = []
    for net in (stack(), managed(settings)):
        with torch.autocast("cpu", precision or torch.bfloat16, enabled=precision is not None):
            output = net(data())
        output.float().square().sum().backward()
        found.append([output, *gradients(net)])
    assert all(map(torch.equal, *found))


def test_a_trained_weight_that_is_not_used_gets_no_gradient_and_a_frozen_one_neither():
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.frozen, self.unused, self.used = (nn.Linear(6, 6, bias=False) for _ in range(3))
            self.frozen.weight.requires_grad_(False)

        def forward(self, x):
            return self.used(self.frozen(x))

    layer, journeys = Half(), Journeys()
    manage({"part": [layer]}, WHOLE, journeys)
    layer(data()).sum().backward()
    assert layer.frozen.weight.grad is layer.unused.weight.grad is None
    expected = torch.ones(3, 6).T @ layer.frozen(data())
    assert torch.equal(layer.used.weight.grad, expected)
    assert len(journeys.sent) == 1


def test_a_weight_that_is_updated_in_backward_ends_where_it_would_without_offload():
    @torch.no_grad()
    def move(weight):
        weight -= 0.1 * weight.grad
        weight.grad = None

    ends = []
    for net in (stack(), managed(WHOLE)):
        for weight in net.parameters():
            weight.register_post_accumulate_grad_hook(move)
        for seed in range(3):
            net(data(seed)).square().sum().backward()
        ends.append([weight.detach() for weight in net.parameters()])
    assert all(map(torch.equal, *ends))


def test_only_one_layer_visits_at_a_time_in_forward_and_in_backward():
    journal = Journal()
    net = managed(WHOLE, journal, count=8)
    output = net(data())
    assert journal.most == 4  # weights and biases of one block
    assert journal.alive == 0
    output.square().sum().backward()
    assert journal.most == 4
    assert journal.alive == 0


def test_the_next_layer_is_announced_in_forward_and_the_one_before_in_backward():
    journeys = Journeys()
    net = managed(WHOLE, journeys, count=3)
    first, middle, last = (list(map(id, each.parameters())) for each in net)
    output = net(data())
    assert list(map(id, journeys.announced)) == middle + last
    journeys.announced.clear()
    output.sum().backward()
    assert list(map(id, journeys.announced)) == middle + first
    assert list(map(id, journeys.fetched)) == first + middle + last + last + middle + first


def test_without_gradients_each_layer_is_fetched_once_and_nothing_is_kept():
    journal = Journal()
    net = managed(WHOLE, journal)
    with torch.no_grad():
        output = net(data())
        assert torch.equal(output, stack()(data()))
    assert len(journal.fetched) == len(list(net.parameters()))
    assert journal.alive == 0


def test_weights_that_are_exchanged_for_a_while_are_the_ones_that_visit():
    net = managed(WHOLE)
    named = dict(net.named_parameters())
    original = OriginalWeights.of(named, torch.device("cpu"))
    with torch.no_grad():
        for weight in named.values():
            weight += 1
    changed = net(data())
    with original.restored():
        assert torch.equal(net(data()), stack()(data()))
    changed.sum().backward()  # its second forward sees the changed weights
    again = stack()
    with torch.no_grad():
        for weight in again.parameters():
            weight += 1
    again(data()).sum().backward()
    assert all(map(torch.equal, gradients(net), gradients(again)))


def test_a_weight_with_two_names_visits_once():
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 4, bias=False))
    layer[2].weight = layer[0].weight
    plain = layer(torch.ones(1, 4))
    journeys = Journeys()
    manage({"part": [layer]}, WHOLE, journeys)
    with torch.no_grad():
        assert torch.equal(layer(torch.ones(1, 4)), plain)
    assert len(journeys.fetched) == 1
