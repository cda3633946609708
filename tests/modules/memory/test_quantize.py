"""Linear layers in few bits: how exact they are, and that they compute and move as others do."""

import copy
import weakref

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from modules.memory import quantize as quantize_module
from modules.memory.quantize import (
    QuantizedLinear,
    product_without_bias,
    quantize,
    stored_weight,
)
from tests.close import close
from tests.each import each

CPU = torch.device("cpu")
KINDS = ("int8", "fp8", "nf4")
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# Dettmers et al. 2023, arXiv:2305.14314, appendix E.
NF4 = torch.tensor(
    [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
     -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
     0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
     0.7229568362236023, 1.0]
)  # fmt: skip


def linear(inputs=48, outputs=30, *, dtype=torch.float32, bias=True, seed=0):
    """A frozen layer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Linear(inputs, outputs, bias=bias).to(dtype).requires_grad_(False)


def quantized(kind, **options):
    return QuantizedLinear(linear(**options), kind, device=CPU)


def random_tensor(*shape, dtype=torch.float32, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("inputs", [64, 30])  # 30: blocks go over the ends of rows
def test_nf4_is_the_nearest_of_the_papers_numbers(inputs):
    weight = linear(inputs=inputs).weight
    blocks = F.pad(weight.flatten(), (0, -weight.numel() % 64)).view(-1, 64)
    largest = blocks.abs().amax(1, keepdim=True)
    nearest = NF4[(blocks[..., None] / largest[..., None] - NF4).abs().argmin(-1)] * largest
    found = quantized("nf4", inputs=inputs).weight
    close(found.flatten(), nearest.flatten()[: weight.numel()])


@each(("kind", "name"), [("int8", "Int8Tensor"), ("fp8", "Float8Tensor")])
@each("dtype", DTYPES)
def test_it_is_unpacked_as_torchao_does_it(kind, name, dtype):
    from torchao import quantization

    weight = linear(dtype=dtype).weight
    theirs = getattr(quantization, name).from_hp(weight, granularity=quantization.PerRow())
    assert torch.equal(quantized(kind, dtype=dtype).weight, theirs.dequantize())


@each("dtype", DTYPES)
@each("kind", KINDS)
@each("bias", [True, False])
def test_output_and_gradient_are_those_of_the_weight_that_it_reports(kind, dtype, bias):
    layer = quantized(kind, dtype=dtype, bias=bias)
    x, other = (random_tensor(2, 5, 48, dtype=dtype).requires_grad_() for _ in range(2))
    found, wanted = layer(x), F.linear(other, layer.weight, layer.bias)
    assert found.dtype == dtype
    assert torch.equal(found, wanted)
    change = random_tensor(*found.shape, dtype=dtype)
    found.backward(change)
    wanted.backward(change)
    assert torch.equal(x.grad, other.grad)


@each("kind", KINDS)
@each("cast", [torch.bfloat16, torch.float16])
def test_under_autocast_it_computes_as_other_layers_do(kind, cast):
    layer, plain = quantized(kind, dtype=cast), linear(dtype=cast)
    plain.weight.copy_(layer.weight)
    x, other = (random_tensor(5, 48).requires_grad_() for _ in range(2))  # as after an fp32 adapter
    with torch.autocast("cpu", dtype=cast):
        found, wanted = layer(x), plain(other)
    assert found.dtype == wanted.dtype == cast
    assert torch.equal(found, wanted)
    for result in (found, wanted):
        result.float().square().sum().backward()
    assert x.grad.dtype == torch.float32
    assert torch.equal(x.grad, other.grad)


class Made(TorchDispatchMode):
    """Remembers how large the float32 tensors are that are made."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor) and found.dtype == torch.float32:
            self.sizes.append(found.numel())
        return found


@each("kind", KINDS)
def test_under_autocast_no_weight_is_unpacked_to_fp32_on_the_way(kind):
    layer, x = quantized(kind, dtype=torch.bfloat16), random_tensor(1, 48).requires_grad_()
    with Made() as made, torch.autocast("cpu", dtype=torch.bfloat16):
        layer(x).sum().backward()
    assert max(made.sizes) < 48 * 30


@each("kind", KINDS)
def test_no_unpacked_weight_is_kept_for_the_backward_pass(kind):
    def kept(layer):
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda tensor: sizes.append(tensor.nbytes) or tensor, lambda tensor: tensor
        ):
            layer(random_tensor(1, 256, dtype=torch.bfloat16).requires_grad_())
        return sum(sizes)

    whole = 256 * 64 * 2
    options = {"inputs": 256, "outputs": 64, "dtype": torch.bfloat16}
    assert kept(linear(**options)) >= whole
    assert kept(quantized(kind, **options)) < {"int8": 0.55, "fp8": 0.55, "nf4": 0.3}[kind] * whole


@each("kind", KINDS)
def test_it_comes_whole_through_moves_copies_and_states(kind):
    layer = nn.Sequential(quantized(kind, seed=3))
    x, wanted = random_tensor(5, 48), None
    wanted = layer(x)
    other = nn.Sequential(quantized(kind, seed=4))
    assert not torch.equal(other(x), wanted)
    other.load_state_dict(layer.state_dict())
    moved = copy.deepcopy(layer).to("cpu").eval().requires_grad_(False)
    state = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    empty = nn.Sequential(quantized(kind, seed=5))
    for found in (other(x), moved(x), functional_call(empty, state, x)):
        assert torch.equal(found, wanted)
    assert layer.to("meta")(x.to("meta")).shape == wanted.shape


def test_only_chosen_linear_layers_are_quantized_and_only_once():
    net = nn.Sequential(linear(), nn.Sequential(linear(), nn.Conv2d(3, 4, 1), nn.Embedding(3, 4)))
    net.requires_grad_(False)
    before, x = net[1][0].weight.clone(), random_tensor(2, 48)
    assert quantize(net, "int8", lambda path: path == "1.0", device=CPU) == 1
    assert [type(each).__name__ for each in (net[0], net[1][0], net[1][1])] == [
        "Linear", "QuantizedLinear", "Conv2d",
    ]  # fmt: skip
    assert torch.allclose(net[1][0](x), F.linear(x, before, net[1][0].bias), atol=0.05)
    assert quantize(net, "int8", lambda _: True, device=CPU) == 1
    assert quantize(net, "int8", lambda _: True, device=CPU) == 0


def test_each_layer_makes_room_before_the_next_is_quantized(monkeypatch):
    net = nn.Sequential(*(linear(seed=seed) for seed in range(4)))
    weights = [weakref.ref(layer.weight) for layer in net]
    alive, pack = [], quantize_module._pack

    def counting(weight, kind):
        alive.append(sum(each() is not None for each in weights))
        return pack(weight, kind)

    monkeypatch.setattr(quantize_module, "_pack", counting)
    quantize(net, "int8", lambda _: True, device=CPU)
    # The layer before is let go of when its successor has been taken up.
    assert alive == [4, 3, 2, 1]


def test_what_trains_is_refused():
    net = nn.Sequential(linear().requires_grad_(True))
    with pytest.raises(ValueError, match="is trainable"):
        quantize(net, "int8", lambda _: True, device=CPU)


@each("layer", [linear(), nn.Conv2d(3, 8, 3, padding=1, stride=2), None])
def test_stored_weights_and_products_are_those_of_any_layer(layer):
    layer = layer or quantized("int8")
    stored = stored_weight(layer)
    assert torch.equal(stored.read(*stored.tensors), layer.weight)
    x = random_tensor(2, 3, 8, 8) if isinstance(layer, nn.Conv2d) else random_tensor(2, 48)
    layer.bias.data.zero_()
    assert torch.equal(product_without_bias(layer, x), layer(x))
