"""Saved inputs that wait elsewhere: what goes, when it comes back, and what stays meanwhile."""

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from modules.memory.layers.activations import SavedInputs
from modules.memory.layers.layers import LayerSettings
from tests.managed import CPU, Journeys, manage


class Layer(nn.Module):
    """Takes the hidden states, and something that all layers get."""

    def __init__(self):
        super().__init__()
        self.own = nn.Linear(4, 4)

    def forward(self, flowing, shared=None):
        return torch.tanh(self.own(flowing)) + (0 if shared is None else shared)


def stack(settings, journeys):
    torch.manual_seed(0)
    layers = nn.ModuleList([Layer() for _ in range(4)])
    manage({"part": list(layers)}, settings, journeys)
    return layers


def run(layers, *, watch=None):
    shared = torch.ones(2, 4)
    flowing = torch.linspace(-1, 1, 8).view(2, 4)
    for layer in layers:
        if watch is not None:
            watch.append(StorageWeakRef(flowing.untyped_storage()))
        flowing = layer(flowing, shared=shared)
    return flowing


def test_only_what_flows_from_layer_to_layer_goes():
    journeys = Journeys()
    run(stack(LayerSettings(activations=1.0), journeys))
    assert len(journeys.sent) == 4


def test_they_come_back_from_last_to_first_each_announced_before():
    journeys = Journeys()
    output = run(stack(LayerSettings(activations=1.0), journeys))
    output.sum().backward()
    assert len(journeys.fetched) == 4
    assert journeys.fetched[0].mean() != journeys.fetched[1].mean()
    assert [each is other for each, other in zip(
        journeys.announced, journeys.fetched[1:], strict=True)] == [True] * 3  # fmt: skip


def test_nothing_that_waited_is_left_after_backward_and_nothing_of_it_is_announced():
    journeys = Journeys()
    layers = stack(LayerSettings(activations=1.0), journeys)
    run(layers).sum().backward()
    copies = [StorageWeakRef(each.untyped_storage()) for each in journeys.fetched]
    journeys.fetched.clear()
    journeys.announced.clear()
    assert all(copy.expired() for copy in copies)
    run(layers).sum().backward()
    assert len(journeys.announced) == 3


def test_an_empty_tensor_that_torch_saves_besides_the_inputs_does_not_count():
    class Saves(torch.autograd.Function):
        """Keeps what a checkpoint of torch 2.11 does."""

        @staticmethod
        def forward(ctx, nothing, *inputs):
            ctx.save_for_backward(nothing, *inputs)
            return torch.empty(0)

        @staticmethod
        def backward(ctx, _):
            raise NotImplementedError

    journeys, flowing = Journeys(), torch.ones(2)
    with SavedInputs(journeys, only_first=True).hooks(CPU):
        kept = Saves.apply(torch.empty(0, requires_grad=True), flowing, torch.zeros(2))
    assert [each.tolist() for each in journeys.sent] == [[1.0, 1.0]]
    assert [each.numel() for each in kept.grad_fn.saved_tensors] == [0, 2, 2]
