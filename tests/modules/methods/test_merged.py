"""What is computed without gradients in the middle of training, adapters in the weights."""

import pytest
import torch
from torch import nn

from modules.memory.layers.layers import LayerSettings, manage_layers
from modules.memory.precision import autocast
from modules.memory.quantize import QuantizedLinear
from modules.methods.adapters.adapters import Adapters
from modules.methods.embedding import Embeddings
from modules.methods.full import Full
from modules.methods.joint import Joint
from modules.methods.quantized import quantize_family
from onetrainer.config.methods.embedding import Embeddings as EmbeddingsSection
from onetrainer.config.methods.embedding import EmbeddingToken
from onetrainer.config.methods.full import Full as FullSection
from tests import pretend, tiny
from tests.adapters import KINDS, predict, section, shake
from tests.batches import TIME_IDS
from tests.cases import cases
from tests.close import FLOAT32, ROUNDINGS
from tests.each import each
from tests.managed import Calls

CPU = torch.device("cpu")
DROPOUTS = {"dropout": 0.5, "rank_dropout": 0.3, "module_dropout": 0.2}


def attach(family, kind="lora", *, text=True, targets="attn", **changes):
    """Adapters with an effect."""
    method = Adapters.attach(family, section(kind, text=text, targets=targets, **changes), seed=0)
    shake(method)
    return method


def state_of(*modules: nn.Module):
    """Where every weight is, its version, and every module's mode."""
    return [
        *((p.data_ptr(), p._version) for part in modules for p in part.parameters()),
        *(module.training for part in modules for module in part.modules()),
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    cases(
        [("sd15", kind) for kind in KINDS] + [("sdxl", "lora"), ("sdxl", "oft")],
        [("sd15", "dora"), ("sd15", "ia3"), ("sdxl", "oft")],
    ),
)
def test_a_model_with_merged_adapters_computes_the_same_without_them(name, kind):
    family = tiny.family(name)
    plain = predict(family)
    method = attach(family, kind, targets="full")
    components = (family.unet, *family.text_encoders.values(), method.extra_modules())
    separate, before = predict(family), state_of(*components)
    with method.merged(), method.base_model():  # the adapters themselves do nothing more
        within = predict(family)
    assert (within - plain).abs().max() > 0.02
    torch.testing.assert_close(within, separate, atol=2e-5, rtol=1e-4)
    assert state_of(*components) == before
    assert torch.equal(predict(family), separate)


def test_nothing_is_dropped_and_each_module_gets_its_own_mode_back():
    family = tiny.family()
    method = attach(family, **DROPOUTS)
    method.train(False)
    separate = predict(family)
    method.train(True)
    family.unet.mid_block.eval()
    before = state_of(family.unet, method.extra_modules())
    assert (predict(family) - separate).abs().max() > 0.02
    with pytest.raises(KeyError), method.merged():
        torch.testing.assert_close(predict(family), separate, atol=2e-5, rtol=1e-4)
        raise KeyError
    assert state_of(family.unet, method.extra_modules()) == before


def test_a_graph_that_waits_for_its_backward_is_not_disturbed():
    def gradients(*, between: bool):
        family = tiny.family()
        method = attach(family, text=False)
        noisy = torch.randn(1, 4, 16, 16, generator=torch.Generator().manual_seed(2))
        texts = family.encode_text(["a cat"])
        noisy.requires_grad_()
        predicted = family.predict(noisy, torch.tensor([500]), texts, time_ids=TIME_IDS)
        if between:
            with method.merged():
                predict(family)
        predicted.square().mean().backward()
        return [noisy.grad, *(p.grad for p in method.extra_modules().parameters())]

    for one, other in zip(gradients(between=True), gradients(between=False), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", cases([torch.bfloat16, torch.float16], [torch.bfloat16]))
def test_weights_of_16_bits_are_merged_in_float32_and_keep_small_changes_on_average(dtype):
    precision = {torch.bfloat16: "bf16", torch.float16: "fp16"}[dtype]
    family = tiny.family(compute_dtype=dtype)
    method = attach(family, text=False, targets="full")
    for adapter in method.adapters["unet"].values():
        adapter.lora_up.weight.data *= 2**-9 if dtype == torch.bfloat16 else 2**-12
    pairs = [(a.org_module[0].weight, a) for a in method.adapters["unet"].values()]
    before = [weight.detach().float() for weight, _ in pairs]
    changes = [
        a.scale
        * (a.lora_up.weight.flatten(1) @ a.lora_down.weight.flatten(1)).detach().view(weight.shape)
        for weight, a in pairs
    ]
    with torch.no_grad(), autocast(CPU, precision), method.merged():
        assert all(weight.dtype == dtype for weight, _ in pairs)
        made = [w.detach().float() - was for (w, _), was in zip(pairs, before, strict=True)]
    wanted, found = (torch.cat([each.flatten() for each in own]) for own in (changes, made))
    nearest = torch.cat(
        [
            ((was + change).to(dtype).float() - was).flatten()
            for was, change in zip(before, changes, strict=True)
        ]
    )
    # How much of the changes is there; measured: 1.01, and 0.56 of bf16's nearest numbers.
    slope, plain = (float(each @ wanted / (wanted @ wanted)) for each in (found, nearest))
    assert slope == pytest.approx(1, abs=0.05)
    assert plain < 0.6
    # One of the two neighbors: at most a whole step away.
    step = torch.finfo(dtype).eps * torch.cat([each.flatten().abs() for each in before])
    rounding = ROUNDINGS * FLOAT32 * max(float(each.abs().max()) for each in before)
    assert ((found - wanted).abs() <= 2 * step + rounding).all()


def test_quantized_layers_and_those_elsewhere_keep_their_adapters_next_to_them():
    family = tiny.family()
    quantize_family(family, kind="int8", patterns=("attn1",), trains=(), device=CPU)
    method = attach(family)
    separate = predict(family)
    adapters = [a for held in method.adapters.values() for a in held.values()]
    with method.merged():
        torch.testing.assert_close(predict(family), separate, atol=2e-5, rtol=1e-4)
        kept = [adapter for adapter in adapters if adapter.multiplier]
        assert 0 < len(kept) < len(adapters)
        assert all(isinstance(adapter.org_module[0], QuantizedLinear) for adapter in kept)


@pytest.mark.parametrize("offload", cases([0.0, 0.5], [0.5]))
def test_on_a_gpu_it_waits_for_nothing_and_leaves_offloaded_layers_alone(offload):
    reference = tiny.family()
    attach(reference, text=False)
    expected = predict(reference, side=8)
    with pretend.accelerator() as gpu:
        family = tiny.family()
        method = attach(family, text=False)
        put_on_gpu(family, method, offload)
        held = gpu.allocated
        gpu.syncs.clear()
        with method.merged():
            assert gpu.syncs == []
            assert gpu.allocated > held
            found = predict_on_gpu(family).cpu()
        assert gpu.allocated == held
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


def methods_of(name: str):
    """A family in bf16's autocast with a method that is no adapter, and a parameter of it."""
    family = tiny.family()
    match name:
        case "full":
            method = Full.attach(family, FullSection(weights="fp32"), source=None)
            return family, method, family.unet.mid_block.attentions[0].proj_in.weight
        case "embeddings":
            word = EmbeddingsSection(tokens=[EmbeddingToken(token="cat", initial_text="dog")])
            family, method = Embeddings.attach(family, word, seed=0)
        case "joint":
            word = EmbeddingsSection(tokens=[EmbeddingToken(token="cat", initial_text="dog")])
            family, words = Embeddings.attach(family, word, seed=0)
            method = Joint(attach(family), words)
    return family, method, list(method.extra_modules().parameters())[-1]


@each("name", ["full", "embeddings", "joint"])
def test_gradients_flow_after_predictions_without_any_in_the_same_autocast(name):
    family, method, parameter = methods_of(name)
    method.train(True)
    calls = Calls(family.unet)
    noisy = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(2))
    with autocast(CPU, "bf16"):
        with method.merged():
            assert not family.unet.training
            texts = family.encode_text(["a cat"])
            predicted = family.predict(noisy, torch.tensor([500]), texts, time_ids=TIME_IDS)
        assert not predicted.requires_grad
        assert not texts.hidden.requires_grad
        texts = family.encode_text(["a cat"])
        predicted = family.predict(noisy, torch.tensor([500]), texts, time_ids=TIME_IDS)
    predicted.square().mean().backward()
    assert calls.count == 2
    assert family.unet.training
    assert parameter.grad.abs().max() > 0


def put_on_gpu(family, method, offload: float) -> None:
    """The UNet and its adapters, except for the offloaded layers."""
    managed = manage_layers(
        {"unet": family.layers()["unet"]},
        LayerSettings(offload=offload),
        train_device=torch.device("cuda"),
        offload_device=CPU,
    )
    for part in (family.unet, method.extra_modules()):
        for tensor in (*part.parameters(), *part.buffers()):
            if tensor not in managed.offloaded:
                tensor.data = tensor.data.to("cuda")


def predict_on_gpu(family) -> torch.Tensor:
    """What `predict` gives, with texts that were encoded in host memory."""
    device = torch.device("cuda")
    noisy = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(2)).to(device)
    texts = family.encode_text(["a cat"]).to(device, torch.float32)
    timesteps = torch.full((1,), 500, device=device)
    return family.predict(noisy, timesteps, texts, time_ids=TIME_IDS.to(device))
