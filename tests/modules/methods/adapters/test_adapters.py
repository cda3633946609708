"""What holds for every kind of adapter: what it computes, trains, keeps and writes."""

import itertools

import pytest
import torch
from lycoris.functional import factorization
from torch import nn

from modules.formats.lora.lora_file import read_lora
from modules.formats.lora.lora_names import Layer
from modules.methods.adapters.adapters import Adapters, make_adapter
from modules.methods.adapters.kind import AdapterPlan
from modules.methods.adapters.oft import oft_block_size
from modules.methods.adapters.registry import kind_of
from modules.methods.adapters.weight_formulas import merged_weight
from modules.methods.layers.layer_presets import layer_names
from modules.methods.merge import merge_loras
from onetrainer.config.methods.low_rank import Lora
from tests import tiny
from tests.adapters import KINDS, predict, section, shake
from tests.cases import cases
from tests.close import ROUNDINGS, close, near
from tests.each import each
from tests.exports import export
from tests.managed import checkpoint

LAYERS = {
    "linear": (lambda: nn.Linear(24, 16), (2, 5, 24)),
    "convolution": (lambda: nn.Conv2d(12, 16, 3, padding=1, stride=2), (2, 12, 7, 6)),
    "convolution of one pixel": (lambda: nn.Conv2d(12, 16, 1), (2, 12, 6, 6)),
}
DROPOUTS = {"dropout": 0.2, "rank_dropout": 0.3, "module_dropout": 0.2}


def on_layer(kind: str, layer: nn.Module, *, scale: float = 0.2, **changes):
    """An adapter with an effect on one layer."""
    wanted = section(kind, **changes)
    rank, alpha = getattr(wanted, "rank", None), getattr(wanted, "alpha", None)
    layer.requires_grad_(False)
    adapter = make_adapter(
        "x", AdapterPlan(Layer("unet", "to_k"), layer, rank, alpha, None), kind_of(wanted), seed=0
    )
    generator = torch.Generator().manual_seed(1)
    for parameter in adapter.parameters():
        parameter.data += torch.randn(parameter.shape, generator=generator) * scale
    adapter.apply_to()
    return adapter


def trained_tensors(adapter) -> dict[str, torch.Tensor]:
    """An adapter's tensors in float64, to be differentiated, and its alpha."""
    own = {kind: p.detach().double().requires_grad_() for kind, p in adapter.named_parameters()}
    others = {key: buffer.double() for key, buffer in adapter.named_buffers()}
    return others | own


@pytest.mark.parametrize(
    ("name", "kind"),
    cases(
        [("sd15", kind) for kind in KINDS]
        + [("sdxl", kind) for kind in ("lora", "dora", "loha", "lokr", "oft")]
        + [("sd2", "dora"), ("sd2", "oft")]
        + [("sd15-inpainting", "loha"), ("sdxl-inpainting", "lokr")],
        [("sd15-inpainting", "loha"), ("sd2", "dora"), ("sdxl", "oft"), ("sd15", "ia3")],
    ),
)  # fmt: skip
def test_adapters_begin_without_effect_and_end_as_the_merged_weights(tmp_path, name, kind):
    adapted, merged = tiny.family(name), tiny.family(name)
    before = predict(adapted)
    method = Adapters.attach(adapted, section(kind, text=True, targets="full"), seed=0)
    # DoRA divides a length by itself, which is 1 but for rounding.
    close(predict(adapted), before, roundings=ROUNDINGS if "dora" in kind else 0)
    shake(method)
    path = tmp_path / "adapter.safetensors"
    export(method, path, dtype=torch.float32, metadata={})
    merge_loras(merged, [(read_lora(path, layer_names(merged)), 1.0)])
    assert (predict(merged) - before).abs().max() > 0.02
    torch.testing.assert_close(predict(adapted), predict(merged), atol=2e-5, rtol=1e-4)
    with method.base_model():
        assert torch.equal(predict(adapted), before)


@each("layer", LAYERS)
@each("kind", KINDS)
def test_gradients_are_those_of_the_published_formula_in_float64(kind, layer):
    make, shape = LAYERS[layer]
    torch.manual_seed(0)
    plain = make()
    given = torch.randn(shape, requires_grad=True)
    double = given.detach().double().requires_grad_()
    adapter = on_layer(kind, plain)
    kinds = trained_tensors(adapter)
    reference = make().double()
    del reference.weight
    reference.bias = nn.Parameter(plain.bias.double(), requires_grad=False)
    reference.weight = merged_weight(plain.weight.double(), kinds, 1.0)
    expected = reference(double)
    toward = torch.randn(expected.shape)
    (plain(given) * toward).sum().backward()
    (expected * toward.double()).sum().backward()
    pairs = [(p.grad, kinds[own].grad) for own, p in adapter.named_parameters()]
    for ours, theirs in [*pairs, (given.grad, double.grad)]:
        assert theirs.abs().max() > 1e-3
        torch.testing.assert_close(ours.double(), theirs, atol=1e-4, rtol=1e-4)


@each("dtype", [torch.bfloat16, torch.float16])
@each("autocast", [True, False])
@each("kind", KINDS)
def test_small_changes_are_not_lost_next_to_half_precision_weights(kind, autocast, dtype):
    # A change of a thousandth of the weight, of which bfloat16 weights hold nothing.
    torch.manual_seed(0)
    plain = nn.Linear(64, 48).to(dtype)
    adapter = on_layer(kind, plain, scale=0.0)
    scales = {"dora_scale": 1e-3, "lora_up.weight": 1e-3, "oft_blocks": 1e-3}
    for name, parameter in adapter.named_parameters():
        noise = torch.randn(parameter.shape)
        parameter.data += noise * scales.get(name, 1e-2)
    given = torch.randn(32, 64, dtype=torch.float32 if autocast else dtype)
    with torch.no_grad(), torch.autocast("cpu", dtype, enabled=autocast):
        change = adapter.change(given, adapter.org_forward(given))
    weight = plain.weight.double()
    changed = merged_weight(weight, trained_tensors(adapter), 1.0).detach()
    expected = given.double() @ (changed - weight).T
    assert (change.double() - expected).norm() < 0.02 * expected.norm()


@pytest.mark.parametrize(
    ("kind", "dtype"),
    cases(
        [(kind, torch.float32) for kind in ("lora", "dora", "loha", "lokr", "oft")]
        + [("dora", torch.bfloat16), ("oft", torch.bfloat16)],
        [("lokr", torch.float32), ("dora", torch.bfloat16)],
    ),
)
def test_checkpointing_drops_the_same_and_gives_equal_gradients(kind, dtype):
    drops = {"module_dropout": 0.3} if kind == "oft" else DROPOUTS
    found = []
    for checkpointing in (False, True):
        family = tiny.family(compute_dtype=dtype)
        method = Adapters.attach(family, section(kind, text=True, **drops), seed=0)
        shake(method)
        if checkpointing:
            checkpoint(family)
        method.train(True)
        torch.manual_seed(0)
        noisy = torch.randn(1, 4, 16, 16, generator=torch.Generator().manual_seed(2))
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype != torch.float32):
            conditioning = family.encode_text(["a cat"])
            out = family.predict(
                noisy, torch.tensor([500]), conditioning, time_ids=torch.ones(1, 6)
            )
        out.square().mean().backward()
        groups = method.parameter_groups()
        found.append([p.grad for group in groups for p in group.parameters.values()])
    assert all(gradient.isfinite().all() for gradient in found[0])
    assert sum(bool(gradient.any()) for gradient in found[0]) > len(found[0]) / 3
    for plain, checkpointed in zip(*found, strict=True):
        close(checkpointed, plain)


@pytest.mark.parametrize(
    "kind", cases(["lora", "dora", "loha", "lokr", "lokr-both", "oft"], ["dora", "lokr"])
)
def test_start_depends_on_seed_and_name_alone(kind):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one = Adapters.attach(tiny.family(), section(kind, targets="attn"), seed=7).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    more = Adapters.attach(tiny.family(), section(kind, text=True), seed=7).state_dict()
    assert all(torch.equal(tensor, more[name]) for name, tensor in one.items())


@pytest.mark.parametrize(
    ("kind", "drop"),
    cases(
        itertools.product(["lora", "loha", "lokr"], ["dropout", "rank_dropout"]),
        [("lora", "dropout"), ("loha", "rank_dropout"), ("lokr", "rank_dropout")],
    ),
)
def test_dropout_changes_nothing_on_average(kind, drop):
    torch.manual_seed(0)
    plain = nn.Linear(24, 16)
    adapter = on_layer(kind, plain, **{drop: 0.4})
    given = torch.randn(1, 24)
    with torch.no_grad():
        base = adapter.org_forward(given)
        adapter.eval()
        expected = plain(given) - base
        adapter.train()
        samples = torch.stack([plain(given) - base for _ in range(4000)])
    # A mean of 4000 is within five of its own standard deviations.
    error = (samples.mean(0) - expected).abs() / (samples.std(0) / 4000**0.5)
    assert samples.std(0).min() > 0
    assert error.max() < 5


@each("kind", ["lora", "dora", "loha", "lokr", "oft"])
def test_module_dropout_leaves_out_whole_adapters_and_gives_gradients_of_zero(kind):
    plain = nn.Linear(24, 16)
    adapter = on_layer(kind, plain, module_dropout=0.5)
    given, left_out = torch.randn(2, 24), 0
    torch.manual_seed(0)
    for _ in range(100):
        adapter.zero_grad()
        output = plain(given)
        if torch.equal(output, adapter.org_forward(given)):
            left_out += 1
            output.sum().backward()
            assert not any(parameter.grad.any() for parameter in adapter.parameters())
    assert 30 < left_out < 70
    adapter.eval()
    assert not torch.equal(plain(given), adapter.org_forward(given))


def test_a_constraint_limits_how_far_a_layer_turns():
    plain = nn.Linear(24, 16)
    adapter = on_layer("oft-constrained", plain, scale=5.0)
    blocks = adapter.tensors()["oft_blocks"]
    skew = blocks - blocks.transpose(1, 2)
    assert float(skew.norm()) == near(0.01 * 16)  # for each of 16 outputs
    weight = plain.weight
    turned = merged_weight(weight, {"oft_blocks": blocks, "alpha": torch.tensor(0.0)}, 1.0)
    close(turned.norm(), weight.norm())
    with torch.no_grad():
        close(plain(torch.eye(24)), turned.T + plain.bias)


def test_blocks_are_the_largest_that_lycoris_can_read():
    sizes = {outputs: oft_block_size(outputs, 32) for outputs in (4, 7, 320, 640, 768, 1280, 10240)}
    assert sizes == {4: 2, 7: 1, 320: 16, 640: 20, 768: 24, 1280: 32, 10240: 32}
    # LyCORIS' own division gives (size, count) for each of them.
    assert all(factorization(n, size) == (size, n // size) for n, size in sizes.items())


def test_up_matrices_train_faster_with_lora_plus():
    wanted = Lora(targets="attn", plus_ratio=16, unet={"lr": 1e-4, "stop_after": 7})
    groups = Adapters.attach(tiny.family(), wanted, seed=0).parameter_groups()
    found = {
        group.lr_ratio: {name.partition(".")[2] for name in group.parameters} for group in groups
    }
    assert found == {1.0: {"lora_down.weight"}, 16.0: {"lora_up.weight"}}
    assert [(group.component, group.lr, group.stop_after) for group in groups] == [
        ("unet", 1e-4, 7)
    ] * 2
