"""Gradients are shortened together, whichever device each of them is on."""

import torch
from torch import nn

from modules.optim.clipping import clip, gradient_norms
from tests import pretend
from tests.close import close
from tests.each import each

SHAPES = [(3, 4), (5,), (2, 2, 2)]


def gradients(device="cpu", scale=1.0):
    generator = torch.Generator().manual_seed(3)
    return [scale * torch.randn(shape, generator=generator).to(device) for shape in SHAPES]


def shorten(found, largest):
    clip(found, torch.linalg.vector_norm(gradient_norms(found)), largest)


@each("largest", [1e-3, 1.0, 1e3])
def test_gradients_are_shortened_as_torch_does_it(largest):
    weights = [nn.Parameter(torch.zeros(shape)) for shape in SHAPES]
    for weight, gradient in zip(weights, gradients(), strict=True):
        weight.grad = gradient
    nn.utils.clip_grad_norm_(weights, largest)
    found = gradients()
    shorten(found, largest)
    for gradient, weight in zip(found, weights, strict=True):
        close(gradient, weight.grad, each=True)


def test_where_gradients_are_does_not_matter_to_the_last_bit():
    plain = gradients()
    shorten(plain, 0.5)
    with pretend.accelerator():
        mixed = gradients()
        mixed[1] = mixed[1].to("cuda")
        shorten(mixed, 0.5)
        found = [each.cpu() for each in mixed]
    assert all(torch.equal(one, other) for one, other in zip(found, plain, strict=True))


def test_norms_in_host_memory_go_to_the_gpu_together_and_the_factor_comes_back_once():
    with pretend.accelerator() as gpu:
        mixed = [*gradients(), *gradients("cuda")]
        before = gpu.to_device.count
        gpu.syncs.clear()
        shorten(mixed, 0.5)
        assert gpu.to_device.count - before == 1
        assert [sync.what for sync in gpu.syncs] == ["copy to the host"]
