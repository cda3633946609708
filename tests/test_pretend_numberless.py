"""The pretended GPU without numbers: full sizes are measured, and nothing is stored."""

import resource

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests import pretend

GIB = 2**30
WIDTH = 8192


@pytest.fixture
def gpu():
    with pretend.accelerator(storage="meta") as made:
        yield made


def stack(layers):
    """Square layers of a quarter of a GiB each."""
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers)])


def test_a_stack_of_many_gib_is_measured_without_memory(gpu):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    net = stack(64)
    assert (net[0].weight.device.type, gpu.allocated) == ("cpu", 0)
    net.to("cuda")
    assert gpu.allocated == 16 * GIB
    net(torch.randn(4, WIDTH).to("cuda")).mean().backward()
    # Weights and gradients, and what is kept of 64 layers: 4 rows each.
    assert 32 * GIB <= gpu.peak <= 32 * GIB + 70 * 4 * WIDTH * 4
    net.cpu()
    assert gpu.allocated <= 2 * 4 * WIDTH * 4
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


def test_what_is_measured_is_what_is_measured_with_numbers():
    def peak(storage):
        with pretend.accelerator(storage=storage) as gpu:
            net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.Flatten())
            net.to("cuda")
            optimizer = torch.optim.AdamW(net.parameters(), foreach=False)
            for _ in range(2):
                net(torch.randn(4, 3, 16, 16, device="cuda")).square().mean().backward()
                optimizer.step()
            return gpu.peak

    assert peak("meta") == peak("host")


def test_autocast_follows_the_gpus_lists(gpu):
    layer = nn.Linear(8, 8).to("cuda")
    pixels = torch.randn(2, 8, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        made = layer(pixels)
        assert made.dtype == torch.bfloat16
        assert functional.layer_norm(made, (8,)).dtype == torch.float32
        assert made.softmax(-1).dtype == torch.float32
        held = gpu.allocated
        layer(pixels)
        assert gpu.allocated == held  # the weight's cast was kept, the result was not
    made.float().sum().backward()
    assert layer.weight.grad.dtype == torch.float32


def test_values_are_those_of_zeros(gpu):
    tensor = torch.randn(3, device="cuda")
    assert (tensor.sum().item(), tensor.tolist(), float(tensor[0])) == (0.0, [0.0] * 3, 0.0)
    assert bool(tensor.isfinite().all())
    assert tensor.cpu().numpy().tolist() == [0.0] * 3
    whats = [sync.what for sync in gpu.syncs]
    assert whats == ["item", "tolist", "item", "item", "copy to the host"]


def test_devices_are_refused_all_the_same(gpu):
    here, there = nn.Linear(4, 4), torch.ones(2, 4, device="cuda")
    for use in (lambda: here(there), lambda: there + torch.ones(2, 4), lambda: there @ here.weight):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            use()
    assert here(torch.ones(2, 4)).device.type == "cpu"


def test_large_tensors_of_the_host_take_no_memory_and_small_ones_have_numbers(gpu):
    assert torch.zeros(10**11).device.type == "cpu"
    assert torch.ones(3).tolist() == [1.0, 1.0, 1.0]
    assert torch.randn(2, generator=torch.Generator().manual_seed(0)).tolist() != [0.0, 0.0]
