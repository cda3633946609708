"""Copies between devices: apart from their source, and on streams never before they have landed."""

import pytest
import torch
from torch import nn

from modules.memory.layers.layers import LayerSettings, manage_layers
from modules.memory.layers.packing import Packed, views_in
from modules.memory.layers.streams import MAX_OUTGOING, StreamedInputs, StreamedWeights
from modules.memory.layers.transfer import DirectTransfer, copy_all_to_device
from onetrainer.errors import UserError
from tests import pretend
from tests.each import each

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
WIDTH, COUNT = 64, 6
LAYER = 4 * (WIDTH * WIDTH + WIDTH)  # bytes of a layer's weights
PACKED_LAYER = 4 * WIDTH * WIDTH + 512  # the bias takes up to the next multiple of 512
INPUT = 4 * 256 * WIDTH  # bytes of a layer's input


class Layer(nn.Linear):
    def __init__(self):
        super().__init__(WIDTH, WIDTH)

    def forward(self, x):
        return torch.tanh(super().forward(x))


def layers(*, trains=True):
    torch.manual_seed(0)
    return [Layer().requires_grad_(trains) for _ in range(COUNT)]


def run(own, device):
    """Output and gradients of two microbatches; the first layer's input needs a gradient, too."""
    found = []
    for seed in (0, 1):
        given = torch.randn(256, WIDTH, generator=torch.Generator().manual_seed(seed)).to(device)
        flowing = given.requires_grad_(True)
        for layer in own:
            flowing = layer(flowing)
        flowing.square().sum().backward()
        found += [flowing.detach().cpu(), given.grad.cpu()]
    weights = [weight for layer in own for weight in layer.parameters()]
    assert all(w.grad.device == w.device for w in weights if w.requires_grad)
    return found + [w.grad.cpu() for w in weights if w.requires_grad]


def managed(settings, *, trains=True):
    """Layers on the pretended GPU, but for those that wait."""
    own = layers(trains=trains)
    offloaded = manage_layers(
        {"part": own}, settings, train_device=CUDA, offload_device=CPU
    ).offloaded
    for layer in own:
        for weight in layer.parameters():
            if weight not in offloaded:
                weight.data = weight.data.to(CUDA)
    return own


@each("prefetch", [False, True])
@each("trains", [False, True])
@each(("offload", "activations"), [(0.5, 0.0), (1.0, 1.0)])
def test_on_a_gpu_gradients_are_those_of_the_plain_run(offload, activations, trains, prefetch):
    expected = run(layers(trains=trains), CPU)
    settings = LayerSettings("block", offload, activations, prefetch)
    with pretend.accelerator():
        found = run(managed(settings, trains=trains), CUDA)
    assert len(found) == len(expected)
    assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize("prefetch", [False, True])
def test_weights_on_the_gpu_are_two_offloaded_layers(prefetch):
    with pretend.accelerator() as gpu:
        own = managed(LayerSettings("block", 1.0, 0.0, prefetch), trains=False)
        assert gpu.allocated == 0
        with torch.no_grad():
            flowing = torch.ones(1, WIDTH, device=CUDA)
            for layer in own:
                flowing = layer(flowing)
        visiting = gpu.peak - 4 * 4 * WIDTH  # without what flows
        assert visiting <= (2 * PACKED_LAYER if prefetch else LAYER)


@pytest.mark.parametrize(("prefetch", "kept"), [(False, 0), (True, MAX_OUTGOING)])
def test_offloaded_inputs_are_not_on_the_gpu(prefetch, kept):
    with pretend.accelerator() as gpu:
        own = managed(LayerSettings("block", 0.0, 1.0, prefetch))
        weights = gpu.allocated
        flowing = torch.ones(256, WIDTH, device=CUDA)
        for layer in own:
            flowing = layer(flowing)
        assert gpu.allocated - weights == (1 + kept) * INPUT  # the output, and what is leaving


def test_with_streams_the_cpu_does_not_wait_for_the_gpu_in_a_step_of_frozen_layers():
    with pretend.accelerator() as gpu:
        own = managed(LayerSettings("block", 1.0, 1.0, prefetch=True), trains=False)
        given = torch.ones(256, WIDTH, device=CUDA, requires_grad=True)
        gpu.syncs.clear()
        flowing = given
        for layer in own:
            flowing = layer(flowing)
        flowing.sum().backward()
        assert gpu.syncs == []


@pytest.mark.parametrize("prefetch", [False, True])
def test_the_cpu_waits_once_for_all_gradients_of_an_offloaded_layer(prefetch):
    with pretend.accelerator() as gpu:
        own = managed(LayerSettings("block", 1.0, 0.0, prefetch))
        given = torch.ones(256, WIDTH, device=CUDA)
        flowing = given
        for layer in own:
            flowing = layer(flowing)
        gpu.syncs.clear()
        flowing.sum().backward()
        waits = [sync.what for sync in gpu.syncs]
        assert waits.count("event.synchronize") == COUNT
        # In its second forward each layer's weight and bias come from memory that is not pinned.
        assert waits.count("copy to the GPU") == (0 if prefetch else 2 * COUNT)
        assert "copy to the host" not in waits


def test_copies_for_which_one_waits_once_can_be_read_at_once_and_keep_their_form():
    with pretend.accelerator() as gpu:
        there = [torch.arange(6.0, device=CUDA).view(2, 3).T, torch.ones(4, device=CUDA).bfloat16()]
        gpu.syncs.clear()
        copies = copy_all_to_device(there, CPU)
        assert len(gpu.syncs) == 1
        assert copies[0].tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
        assert copies[0].stride() == (1, 3)
        assert copies[1].dtype == torch.bfloat16


def test_a_layer_that_is_fetched_ahead_is_one_copy():
    with pretend.accelerator() as gpu:
        own = managed(LayerSettings("block", 1.0, 0.0, prefetch=True), trains=False)
        with torch.no_grad():
            for _ in range(2):  # in the first, the first layer's weights are not pinned yet
                flowing, before = torch.ones(1, WIDTH, device=CUDA), gpu.to_device.count
                for layer in own:
                    flowing = layer(flowing)
        first_layer = 2
        assert gpu.to_device.count - before == first_layer + COUNT - 1
        addresses = [weight.data_ptr() for layer in own[1:] for weight in layer.parameters()]
        assert [b - a for a, b in zip(addresses[::2], addresses[1::2], strict=True)] == [
            4 * WIDTH * WIDTH
        ] * (COUNT - 1)


@each("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_packed_tensors_keep_their_numbers_and_their_form(dtype):
    given = [torch.arange(6).to(dtype).view(2, 3).T, torch.ones((), dtype=dtype)]
    given += [torch.zeros(0, dtype=dtype), torch.arange(24).to(dtype).view(1, 2, 3, 4)]
    given[-1] = given[-1].contiguous(memory_format=torch.channels_last)
    with pretend.accelerator():
        packed = Packed.of(given)
        there = views_in(packed.memory.to(CUDA), packed.tensors)
        assert packed.memory.is_pinned()
        assert packed.holds(packed.tensors)
        assert not packed.holds(given)
        for found in (packed.tensors, there):
            assert [each.stride() for each in found] == [each.stride() for each in given]
            assert [each.tolist() for each in found] == [each.tolist() for each in given]


def test_a_weight_that_has_changed_since_it_was_announced_is_fetched_again():
    with pretend.accelerator():
        transfer = StreamedWeights(CUDA, CPU)
        weight, other = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.ones(4))
        transfer.prefetch([weight, other])
        torch.cuda.synchronize()
        with torch.no_grad():
            weight += 2
        other.data = torch.full((4,), 3.0)
        assert transfer.to_device(weight).tolist() == [2.0] * 4
        assert transfer.to_device(other).tolist() == [3.0] * 4


def test_what_was_announced_in_vain_is_given_back():
    with pretend.accelerator() as gpu:
        transfer = StreamedWeights(CUDA, CPU)
        transfer.prefetch([nn.Parameter(torch.zeros(4)) for _ in range(8)])
        assert gpu.allocated == 8 * 512  # as packed
        transfer.prefetch([])
        assert gpu.allocated == 0
        torch.zeros(8 * 128, device=CUDA)  # memory that a copy might still write is an error here


def refuse(*_, **__):
    raise RuntimeError("CUDA error: out of memory")


@pytest.mark.parametrize("is_announced", [False, True])
def test_where_weights_cannot_be_pinned_the_settings_are_named(monkeypatch, is_announced):
    with pretend.accelerator():
        transfer = StreamedWeights(CUDA, CPU)
        weight = nn.Parameter(torch.zeros(4))
        place, name = (torch, "empty") if is_announced else (torch.Tensor, "pin_memory")
        monkeypatch.setattr(place, name, refuse)
        with pytest.raises(UserError, match=r"hardware\.prefetch") as found:
            transfer.prefetch([weight]) if is_announced else transfer.to_device(weight)
        assert "hardware.offload_layers" in found.value.remedy


def test_where_inputs_cannot_be_pinned_the_settings_are_named(monkeypatch):
    with pretend.accelerator():
        transfer = StreamedInputs(CUDA)
        given = torch.zeros(4, device=CUDA)
        monkeypatch.setattr(torch, "empty_like", refuse)
        with pytest.raises(UserError, match=r"hardware\.prefetch") as found:
            transfer.to_host(given)
        assert "hardware.offload_activations" in found.value.remedy


def test_inputs_come_back_as_they_went_also_if_their_memory_was_used_again():
    with pretend.accelerator():
        transfer = StreamedInputs(CUDA)
        hosts = []
        for number in range(5):
            tensor = torch.full((3, 4), float(number), device=CUDA).T
            hosts.append(transfer.to_host(tensor))
            del tensor
        for number, host in reversed(list(enumerate(hosts))):
            transfer.prefetch(hosts[number - 1 : number])
            back = transfer.to_device(host)
            assert back.stride() == (1, 4)
            assert back.tolist() == [[float(number)] * 3] * 4


def test_direct_copies_are_apart_from_their_source_also_on_the_same_device():
    transfer = DirectTransfer(CPU, CPU)
    weight = nn.Parameter(torch.zeros(2, 3).T)
    copies = transfer.to_device(weight), transfer.to_host(weight), *transfer.all_to_host([weight])
    for copy in copies:
        copy += 1
        assert not copy.requires_grad
        assert copy.stride() == weight.stride()
    assert not weight.any()
