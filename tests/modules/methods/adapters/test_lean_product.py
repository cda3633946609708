"""A layer and its LoRA as few operations: against torch's own functions and their derivatives."""

import torch
from torch import nn
from torch.nn import functional as F

from modules.memory.layers.layers import LayerSettings, manage_layers
from modules.methods.adapters.adapters import Adapters
from modules.methods.adapters.lean_product import low_rank_linear
from onetrainer.config.methods.low_rank import LoKr, Lora
from tests import tiny
from tests.close import close
from tests.each import each

CPU = torch.device("cpu")


def operands(dtype=torch.float64, *, bias=True, seed=0):
    """A frozen layer, its input and a LoRA's matrices; rank 3."""
    generator = torch.Generator().manual_seed(seed)
    layer = nn.Linear(6, 7, bias=bias, dtype=dtype).requires_grad_(False)
    shapes = [(2, 5, 6), (3, 6), (7, 3)]
    for weight in layer.parameters():
        weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    x, down, up = (
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        for shape in shapes
    )
    return layer, x, down, up


@each("scale, bias", [(1.0, True), (0.5, True), (0.5, False)])
def test_gradients_are_the_derivatives(scale, bias):
    layer, *inputs = operands(bias=bias)
    assert torch.autograd.gradcheck(
        lambda x, down, up: low_rank_linear(x, layer.weight, layer.bias, down, up, scale), inputs
    )


@each("dtype", [torch.float64, torch.float32])
@each("scale, bias", [(1.0, True), (0.5, False)])
def test_output_and_gradients_are_those_of_the_written_out_formula(dtype, scale, bias):
    layer, *inputs = operands(dtype, bias=bias)
    x, down, up = inputs
    plain = F.linear(x, layer.weight, layer.bias) + scale * F.linear(F.linear(x, down), up)
    lean = low_rank_linear(x, layer.weight, layer.bias, down, up, scale)
    close(lean, plain)
    start = torch.randn_like(plain)
    expected = torch.autograd.grad(plain, inputs, start)
    found = torch.autograd.grad(lean, inputs, start)
    close(found, expected)


def test_half_precision_rounds_less_than_the_written_out_formula():
    layer, x, down, up = operands()
    exact = low_rank_linear(x, layer.weight, layer.bias, down, up, 0.5)
    half = nn.Linear(6, 7).to(torch.bfloat16).requires_grad_(False)
    half.load_state_dict(layer.state_dict())
    x, down, up = (each.to(torch.bfloat16) for each in (x, down, up))
    lean = low_rank_linear(x, half.weight, half.bias, down, up, 0.5)
    plain = half(x) + 0.5 * F.linear(F.linear(x, down), up)
    assert (lean - exact).abs().mean() <= (plain - exact).abs().mean()


def attached(section, dtype=torch.bfloat16):
    """Adapters on the tiny UNet, which have an effect."""
    family = tiny.family(compute_dtype=dtype)
    method = Adapters.attach(family, section, seed=0)
    generator = torch.Generator().manual_seed(1)
    for group in method.parameter_groups():
        for matrix in group.parameters.values():
            matrix.data.add_(0.05 * torch.randn(matrix.shape, generator=generator))
    method.train(True)
    return family, method


def gradients(family, method):
    """The trained matrices' gradients of a microbatch, and the output."""
    generator = torch.Generator().manual_seed(2)
    latents = torch.randn(2, 4, 8, 8, generator=generator).to(family.unet.dtype)
    hidden = torch.randn(2, 7, tiny.WIDTH, generator=generator).to(family.unet.dtype)
    output = family.unet(latents, torch.tensor([3, 700]), hidden).sample.float()
    output.square().mean().backward()
    found = {}
    for group in method.parameter_groups():
        for name, matrix in group.parameters.items():
            found[name], matrix.grad = matrix.grad, None
    return output.detach(), found


@each("section", [Lora(rank=4, targets="attn-mlp"), LoKr(rank=4, factor=4)])
def test_copies_change_no_output_and_no_gradient(section):
    family, method = attached(section)
    expected = gradients(family, method)
    method.begin_microbatch()
    found = gradients(family, method)
    method.after_step()
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert all(each.dtype == torch.float32 for each in found[1].values())


def test_copies_are_of_the_weights_as_they_are_and_gone_after_the_step():
    family, method = attached(Lora(rank=4))
    before = gradients(family, method)[0]
    method.begin_microbatch()
    with torch.no_grad():
        for group in method.parameter_groups():
            for matrix in group.parameters.values():
                matrix.zero_()
    torch.testing.assert_close(gradients(family, method)[0], before, rtol=0, atol=0)
    method.after_step()
    assert not torch.equal(gradients(family, method)[0], before)


def test_a_matrix_that_nothing_reads_has_no_gradient_and_frozen_ones_have_none():
    _, method = attached(Lora(rank=4, targets="attn"))
    adapters = dict(method.extra_modules().named_modules())
    frozen = next(each for each in adapters.values() if hasattr(each, "lora_up"))
    frozen.lora_up.weight.requires_grad_(False)
    method.begin_microbatch()
    assert all(matrix.grad is None for matrix in frozen.parameters())
    assert frozen.copies["lora_up.weight"].requires_grad is False
    (frozen.copies["lora_down.weight"].float().sum()).backward()
    with_gradient = [
        matrix
        for group in method.parameter_groups()
        for matrix in group.parameters.values()
        if matrix.grad is not None
    ]
    assert with_gradient == [frozen.lora_down.weight]


def test_layers_in_float32_need_no_copies():
    _, method = attached(Lora(rank=4), torch.float32)
    method.begin_microbatch()
    assert not any(getattr(each, "copies", None) for each in method.extra_modules().modules())


@each("policy", ["selective", "block"])
def test_checkpointing_changes_no_bit(policy, monkeypatch):
    # The tiny UNet's products are smaller than what selective checkpointing saves.
    monkeypatch.setattr("modules.memory.layers.selective.CHEAP", 8)
    family, method = attached(Lora(rank=4, alpha=2.0, targets="attn-mlp"))
    method.begin_microbatch()
    expected = gradients(family, method)
    layers = manage_layers(
        family.layers(),
        LayerSettings(checkpointing=policy),
        train_device=CPU,
        offload_device=CPU,
    )
    method.begin_microbatch()
    found = gradients(family, method)
    layers.undo()
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
