"""Counting storages: exactly those that are alive, by what they belong to and where they are."""

import pytest
import torch
from torch import nn

from modules.meta_device.meter import Meter, size_of, tensors_in

KB = 1024
META = torch.device("meta")


@pytest.fixture
def meter():
    with Meter() as made:
        yield made


def made(kilobytes, **options):
    return torch.empty(kilobytes * KB // 4, device=META, **options)


def test_whole_storages_count_once_and_views_not_at_all(meter):
    tensor = made(8)
    view = tensor[:10].view(2, 5)
    assert meter.alive() == {"activations": 8 * KB}
    del tensor
    assert meter.alive() == {"activations": 8 * KB}
    del view
    assert meter.alive() == {}
    # Sizes are those of CUDA's allocator.
    kept = torch.empty(1, device=META), torch.empty(129, device=META)
    assert meter.alive() == {"activations": 512 + 1024}
    del kept


def test_the_peak_is_the_highest_sum_since_the_restart_with_what_it_was_made_of(meter):
    with meter.assigning_to("gradients"):
        kept = made(4)
    del kept
    high = made(16), made(2)
    del high
    assert meter.peak == {"activations": 18 * KB}
    meter.restart()
    low = made(6)
    assert meter.peak == {"activations": 6 * KB}
    del low


def test_what_is_made_of_host_memory_alone_stays_there_and_what_moves_takes_its_bytes(meter):
    with meter.placing("host"):
        host = made(4)
    near = made(4)
    doubled, both = host * 2, host + near
    sides = [meter.side_of(one) for one in (host, doubled, near, both)]
    assert sides == ["host", "host", "device", "device"]
    assert meter.alive("host") == {"activations": 8 * KB}
    meter.assign(near, "optimizer")
    assert meter.alive() == {"optimizer": 4 * KB, "activations": 4 * KB}
    meter.move(near, "host")
    assert meter.alive() == {"activations": 4 * KB}
    assert meter.alive("host") == {"optimizer": 4 * KB, "activations": 8 * KB}
    del near, both
    assert meter.alive("host") == {"activations": 8 * KB}


def test_a_step_of_a_stack_takes_what_can_be_counted_by_hand(meter):
    # 8 layers of 256 x 256 with a batch of 64: a layer's weight takes 256 KB, its output 64 KB.
    net = nn.Sequential(*[nn.Linear(256, 256, bias=False) for _ in range(8)]).to(META)
    for weight in net.parameters():
        meter.assign(weight, "weights")
    loss = net(torch.empty(64, 256, device=META)).sum()
    assert meter.alive()["activations"] == 8 * 64 * KB + 512  # the input, 7 outputs, the loss
    loss.backward()
    # At the end of backward: all gradients, and of the activations two that are in use.
    assert sum(size_of(weight.grad) for weight in net.parameters()) == 8 * 256 * KB
    assert sum(meter.peak.values()) <= 8 * 256 * KB * 2 + 8 * 64 * KB + 3 * 64 * KB


def test_what_is_remembered_of_an_operator_is_what_it_gives(meter):
    def results():
        x, w = torch.empty(4, 6, device=META), torch.empty(6, 8, device=META, dtype=torch.float64)
        parts = [
            x @ w.float(),
            (x + 1).t(),
            x.sum(0, keepdim=True),
            x.double() * w.t()[:4, :4].sum(),
        ]
        parts += torch.std_mean(x, dim=1)
        return [(one.shape, one.stride(), one.dtype) for one in parts]

    first = results()
    assert results() == first
    assert first[0] == (torch.Size([4, 8]), (8, 1), torch.float32)
    assert first[1] == (torch.Size([6, 4]), (1, 6), torch.float32)


def test_what_is_changed_in_place_stays_what_it_was(meter):
    x = made(4)
    with torch.no_grad():
        assert x.add_(1) is x
        assert x.copy_(made(4)) is x
    assert meter.alive() == {"activations": 4 * KB}


def test_tensors_in_finds_them_all():
    one, two, three = torch.ones(1), torch.ones(2), torch.ones(3)
    assert list(tensors_in({"a": one, "b": [two, (three, 5)], "c": "x"})) == [one, two, three]
