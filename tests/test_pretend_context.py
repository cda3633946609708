"""Nothing of the pretended GPU is left behind, and libraries find what they expect."""

import contextlib

import accelerate
import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState
from torch import nn
from torchao.quantization import Int8WeightOnlyConfig, quantize_

from modules.memory.precision import choose_device
from tests import pretend

OWNERS = (
    torch,
    torch.cuda,
    torch.amp,
    torch.amp.autocast_mode,
    torch.amp.autocast_mode.autocast,
    torch.autograd,
    torch.autograd.Function,
    torch.autograd.graph,
    torch.autograd.graph.saved_tensors_hooks,
    torch.utils._foreach_utils,
    torch.Tensor,
    nn.Module,
    nn.Parameter,
)


def everything():
    """Every attribute of the places that are known to be changed."""
    return [dict(vars(owner)) for owner in OWNERS]


@pytest.mark.parametrize(("storage", "error"), [("host", None), ("meta", ValueError)])
def test_everything_is_put_back(storage, error):
    before = everything()
    with contextlib.suppress(ValueError), pretend.accelerator(storage=storage):
        assert everything() != before
        tensor = torch.ones(2, device="cuda")
        if error is not None:
            raise error
    assert everything() == before
    assert torch.overrides._get_current_function_mode_stack() == []
    assert tensor.device.type == ("cpu" if storage == "host" else "meta")
    assert pretend.device_of(tensor).type == "cpu"


def test_contexts_know_nothing_of_each_other():
    with pretend.accelerator() as first:
        kept = torch.ones(2, device="cuda")
    with pretend.accelerator() as second:
        assert kept.device.type == "cpu"
        assert second.allocated == 0
        del kept
        torch.ones(2, device="cuda")
    assert (first.peak, second.peak) == (8, 8)


def test_accelerate_finds_a_gpu_and_forgets_it():
    Accelerator(cpu=True)
    before = [dict(kind._shared_state) for kind in (PartialState, AcceleratorState, GradientState)]
    with pretend.accelerator():
        assert choose_device("auto") == torch.device("cuda")
        assert torch.cuda.get_device_properties(0).total_memory > 0
        engine = Accelerator()
        assert engine.device.type == "cuda"
        weight = torch.ones(2, device="cuda", requires_grad=True)
        engine.backward(weight.sum())
        assert weight.grad.device.type == "cuda"
    after = [dict(kind._shared_state) for kind in (PartialState, AcceleratorState, GradientState)]
    assert after == before
    assert accelerate.state.PartialState().device.type == "cpu"


def test_quantised_weights_move_and_are_refused_like_others():
    with pretend.accelerator() as gpu:
        net = nn.Sequential(nn.Linear(64, 64, bias=False)).requires_grad_(False)
        quantize_(net, Int8WeightOnlyConfig())
        net.to("cuda")
        assert net[0].weight.device.type == "cuda"
        assert 64 * 64 <= gpu.allocated < 2 * 64 * 64
        pixels = torch.ones(2, 64, device="cuda", requires_grad=True)
        net(pixels).sum().backward()
        assert pixels.grad.device.type == "cuda"
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            net(torch.ones(2, 64))
        there = nn.Sequential(nn.Linear(64, 64)).to("cuda")
        quantize_(there, Int8WeightOnlyConfig())
        assert there[0].weight.device.type == "cuda"
