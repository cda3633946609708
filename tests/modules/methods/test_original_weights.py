"""The weights of before: the same numbers wherever they are kept, and nobody waits for them."""

import torch
from torch import nn

from modules.methods.original_weights import OriginalWeights
from tests import pretend

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def trained_on(device):
    """Two parameters that were moved by one since a copy was kept in host memory; the copy."""
    named = {name: nn.Parameter(torch.full((3,), 2.0)) for name in ("one", "other")}
    original = OriginalWeights.of(named, CPU)
    for parameter in named.values():
        parameter.data = (parameter.data + 1).to(device)
    return named, original


def numbers(named):
    return [parameter.detach().tolist() for parameter in named.values()]


def test_copies_in_host_memory_come_to_the_gpu_without_anybody_waiting():
    with pretend.accelerator() as gpu:
        named, original = trained_on(CUDA)
        gpu.syncs.clear()
        for _ in range(2):
            with original.restored():
                held = [parameter.data for parameter in named.values()]
        assert gpu.syncs == []
        assert [each.device.type for each in held] == ["cuda"] * 2
        assert [each.tolist() for each in held] == [[2.0] * 3] * 2
        assert numbers(named) == [[3.0] * 3] * 2


def test_copies_are_pinned_once():
    with pretend.accelerator():
        _, original = trained_on(CUDA)
        with original.restored():
            pinned = dict(original.copies)
        assert all(copy.is_pinned() for copy in pinned.values())
        with original.restored():
            pass
        assert all(original.copies[name] is copy for name, copy in pinned.items())


def test_where_memory_cannot_be_pinned_they_come_all_the_same(monkeypatch):
    tries = []

    def refuse(tensor):
        tries.append(tensor)
        raise RuntimeError("CUDA error: out of memory")

    with pretend.accelerator():
        named, original = trained_on(CUDA)
        monkeypatch.setattr(torch.Tensor, "pin_memory", refuse)
        for _ in range(2):
            with original.restored():
                assert numbers(named) == [[2.0] * 3] * 2
        assert len(tries) == 1


def test_without_a_gpu_nothing_is_pinned_or_copied():
    named, original = trained_on(CPU)
    with original.restored():
        assert all(p.data_ptr() == original.copies[n].data_ptr() for n, p in named.items())
    assert numbers(named) == [[3.0] * 3] * 2
