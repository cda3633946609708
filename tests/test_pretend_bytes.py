"""The pretended GPU counts bytes, copies and waiting exactly; small programs counted by hand."""

import gc

import pytest
import torch
from torch import nn

from tests import pretend

KIB = 1024


@pytest.fixture
def gpu():
    with pretend.accelerator() as made:
        yield made


def kib(device="cuda"):
    """One KiB."""
    return torch.zeros(256, device=device)


def pinned(count):
    """Numbers in host memory that the GPU reads and writes by itself."""
    return torch.zeros(count, pin_memory=True)


def test_storages_count_once_and_as_long_as_they_live(gpu):
    first = kib()
    view = first[10:20]
    assert gpu.allocated == KIB
    del first
    assert gpu.allocated == KIB
    del view
    assert gpu.allocated == 0
    kib("cpu")
    assert gpu.peak == KIB


def test_the_peak_is_the_most_at_one_time(gpu):
    one = kib()
    two = one + 1
    three = two * 2
    del two
    four = three - 1
    assert (gpu.allocated, gpu.peak) == (3 * KIB, 3 * KIB)
    one.add_(four)
    assert gpu.peak == 3 * KIB
    del three, four
    gpu.reset_peak()
    assert gpu.peak == KIB


def test_a_step_of_a_linear_layer_takes_what_it_takes_by_hand(gpu):
    weight = torch.zeros(32, 32, device="cuda", requires_grad=True)  # 4 KiB
    pixels = torch.zeros(8, 32, device="cuda")  # 1 KiB
    loss = (pixels @ weight).square().sum()
    # Product and square, 1 KiB each, of which the product is kept; sum: 4 bytes.
    assert (gpu.allocated, gpu.peak) == (6 * KIB + 4, 7 * KIB + 4)
    loss.backward()
    del loss
    gc.collect()
    assert gpu.allocated == 9 * KIB
    assert weight.grad.device.type == "cuda"


def test_memory_of_another_size_counts_again(gpu):
    tensor = torch.empty(0, device="cuda")
    torch.add(torch.zeros(256, device="cuda"), 1, out=tensor)
    assert gpu.allocated == KIB
    tensor.resize_(512)
    assert gpu.allocated == 2 * KIB


def test_a_full_gpu_is_out_of_memory_and_can_go_on():
    with pretend.accelerator(capacity=3 * KIB) as gpu:
        kept = [kib(), kib()]
        with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
            kept[0].repeat(2)
        assert gpu.allocated == 2 * KIB
        kept.pop()
        assert kept[0].repeat(2).numel() == 512
        assert torch.cuda.mem_get_info() == (2 * KIB, 3 * KIB)
        assert torch.cuda.memory_allocated() == KIB
        assert torch.cuda.max_memory_allocated() == 3 * KIB


def test_copies_are_counted_each_way(gpu):
    there = torch.zeros(256).to("cuda")
    there.cpu()
    there.copy_(torch.zeros(256))
    torch.zeros(256).copy_(there)
    there.copy_(torch.ones(256, device="cuda"))
    assert (gpu.to_device.count, gpu.to_device.bytes) == (2, 2 * KIB)
    assert (gpu.to_host.count, gpu.to_host.bytes) == (2, 2 * KIB)


WAITING = {
    "item": lambda t: t[0].item(),
    "float": lambda t: float(t[0]),
    "bool": lambda t: bool(t[0] > 0),
    "tolist": lambda t: t.tolist(),
    "print": lambda t: repr(t),
    "format": lambda t: f"{t[0]:.2f}",
    "nonzero": lambda t: t.nonzero(),
    "mask": lambda t: t[t > 1],
    "equal": lambda t: torch.equal(t, t),
    "masked_select": lambda t: t.masked_select(t > 1),
    "masked_fill": lambda t: t.masked_fill(t > 1, t[0]),
    "unique": lambda t: t.unique(),
    "cpu": lambda t: t.cpu(),
    "to cpu": lambda t: t.to("cpu"),
    "copy_": lambda t: torch.zeros(3).copy_(t),
    "onto the GPU": lambda t: torch.zeros(3).to("cuda"),
    "onto the GPU from pinned memory": lambda t: pinned(3).to("cuda"),
    "onto the GPU from ordinary memory": lambda t: torch.zeros(3).to("cuda", non_blocking=True),
    "copy_ from ordinary memory": lambda t: t.copy_(torch.zeros(3), non_blocking=True),
    "copy_ to ordinary memory": lambda t: torch.zeros(3).copy_(t, non_blocking=True),
    "copy_ to pinned memory": lambda t: pinned(3).copy_(t),
    "tensor": lambda t: torch.tensor([1.0], device="cuda"),
    "indices of the host": lambda t: t[torch.tensor([0])],
    "synchronize": lambda t: torch.cuda.synchronize(),
}
NOT_WAITING = {
    "mean": lambda t: t.mean(),
    "a mask filled": lambda t: t.masked_fill(t > 1, 0.0),
    "a number under a mask": lambda t: t.__setitem__(t > 1, 0.0),
    "indices of the GPU": lambda t: t[t.long().clamp(0, 2)],
    "where": lambda t: torch.where(t > 1, t, 0.0),
    "isfinite": lambda t: t.isfinite().all(),
    "made there": lambda t: torch.full((3,), 2.0, device="cuda"),
    "drawn there": lambda t: torch.randn_like(t),
    "onto the GPU without waiting": lambda t: pinned(3).to("cuda", non_blocking=True),
    "copy_ without waiting": lambda t: t.copy_(pinned(3), non_blocking=True),
    "copy_ to the host without waiting": lambda t: pinned(3).copy_(t, non_blocking=True),
    "to the host without waiting": lambda t: t.to("cpu", non_blocking=True),
    "shape": lambda t: (t.shape, len(t), t.dtype, t.device, t.numel()),
    "of the host": lambda t: (torch.ones(2).tolist(), torch.ones(1).item()),
}


def test_waiting_for_the_gpu_is_noted_with_the_callers_line_and_nothing_else_is(gpu):
    for operations, count in ((WAITING, 1), (NOT_WAITING, 0)):
        for name, operation in operations.items():
            tensor = torch.arange(3, device="cuda", dtype=torch.float32)
            gpu.syncs.clear()
            operation(tensor)
            torch.cuda.default_stream().streams.synchronize()  # of what was not waited for
            assert len(gpu.syncs) == count, name
            wheres = {sync.where.split(":")[0] for sync in gpu.syncs}
            assert wheres <= {"tests/test_pretend_bytes.py"}, name


def test_a_step_of_training_need_not_wait(gpu):
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(64, 2))
    net.to("cuda")
    optimizer = torch.optim.AdamW(net.parameters())
    gpu.syncs.clear()
    for _ in range(2):
        net(torch.randn(2, 3, 6, 6, device="cuda")).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    assert gpu.syncs == []
    net.cpu()
    del optimizer
    gc.collect()
    assert gpu.allocated == 0
