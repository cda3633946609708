"""Quantized families: adapters and embeddings on them, against the same family unquantized."""

from dataclasses import replace
from typing import get_args

import pytest
import torch
from torch import nn

from modules.data.cache import encoder_digests
from modules.memory.layers.layers import LayerSettings, manage_layers
from modules.memory.precision import autocast, compute_dtype
from modules.memory.quantize import Kind, QuantizedLinear
from modules.methods.adapters.adapters import Adapters
from modules.methods.embedding import Embeddings
from modules.methods.layers.layer_presets import layer_names
from modules.methods.quantized import quantize_family, unquantized_components
from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.methods.embedding import Embeddings as EmbeddingsSection
from onetrainer.config.methods.embedding import EmbeddingToken
from onetrainer.errors import UserError
from tests import pretend, tiny
from tests.adapters import KINDS, predict, section, shake
from tests.batches import TIME_IDS
from tests.cases import cases
from tests.close import close
from tests.each import each

QUANTIZATIONS = get_args(Kind)
ENCODERS = {"sd15": ["te"], "sd2": ["te"], "sdxl": ["te1", "te2"]}
PAIRS = [*((kind, "int8") for kind in KINDS), ("dora", "fp8"), ("lora", "nf4"), ("dora", "nf4")]
# Of a prediction's length; measured: at most 0.013, 0.03 and 0.144.
LOST = {"int8": 0.03, "fp8": 0.06, "nf4": 0.25}


def quantized(kind="int8", name="sd15", *, patterns=(), trains=(), dtype=torch.float32):
    family = tiny.family(name, compute_dtype=dtype)
    notes = quantize_family(
        family, kind=kind, patterns=patterns, trains=trains, device=torch.device("cpu")
    )
    assert notes == ()
    return family


def networks(family):
    return {"unet": family.unet, **family.text_encoders}


def layers(family):
    """The quantized layers of a family, by part and path."""
    return {
        (part, path): layer
        for part, module in networks(family).items()
        for path, layer in module.named_modules()
        if isinstance(layer, QuantizedLinear)
    }


def plain(family, **options):
    """The same family with plain weights, that are those which it computes with."""
    made = tiny.family(family.name, **options)
    for (part, path), layer in layers(family).items():
        networks(made)[part].get_submodule(path).weight.copy_(layer.weight)
    return made


def backpropagate(family, method):
    """Gradients of everything that trains, after a microbatch."""
    noisy = torch.randn(1, 4, 16, 16, generator=torch.Generator().manual_seed(2))
    conditioning = family.encode_text(["a cat"])
    predicted = family.predict(noisy, torch.tensor([500]), conditioning, time_ids=TIME_IDS)
    (predicted - noisy.to(predicted.device)).square().mean().backward()
    return {
        name: weight.grad
        for group in method.parameter_groups()
        for name, weight in group.parameters.items()
    }


@pytest.mark.parametrize(
    ("name", "precision", "kind"),
    cases(
        [(name, "bf16", kind) for name in ENCODERS for kind in QUANTIZATIONS]
        + [("sd2", precision, kind) for precision in ("fp32", "fp16") for kind in QUANTIZATIONS],
        [("sdxl", "bf16", "nf4"), ("sd2", "fp16", "int8")],
    ),
)  # fmt: skip
def test_a_quantized_family_predicts_nearly_what_the_whole_one_does(kind, name, precision):
    whole = predict(tiny.family(name))
    family = quantized(kind, name, dtype=compute_dtype(precision))
    with autocast(tiny.CPU, precision):
        found = predict(family)
    assert 0 < (found - whole).norm() < LOST[kind] * whole.norm()


@pytest.mark.parametrize(
    ("kind", "quantization"),
    cases(PAIRS, [("dora", "fp8"), ("lokr", "int8"), ("ia3", "int8")]),
)
def test_adapters_train_as_on_plain_weights_of_the_same_numbers(kind, quantization):
    family = quantized(quantization, trains=["te"])
    other, before = plain(family), predict(family)
    assert torch.equal(predict(other), before)
    methods = [Adapters.attach(one, section(kind, text=True), seed=0) for one in (family, other)]
    # Also DoRA, whose lengths are those of the weights that are computed with.
    close(predict(family), before)
    for method in methods:
        shake(method)
    found, wanted = backpropagate(family, methods[0]), backpropagate(other, methods[1])
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        close(found[name], gradient)
    assert sum(bool(gradient.any()) for gradient in found.values()) > 0.9 * len(found)


@pytest.mark.parametrize("name", cases(ENCODERS, ["sdxl"]))
def test_layers_have_the_names_in_files_that_they_have_without(name):
    assert layer_names(quantized(name=name)) == layer_names(tiny.family(name))


@pytest.mark.parametrize("name", cases(ENCODERS, ["sdxl"]))
def test_gradients_reach_tokens_through_quantized_encoders(name):
    words = EmbeddingsSection(tokens=(EmbeddingToken(token="<cat>", initial_text="a dog"),))
    family, method = Embeddings.attach(quantized(name=name), words, seed=0)
    noisy = torch.randn(1, 4, 16, 16, generator=torch.Generator().manual_seed(2))
    conditioning = family.encode_text(["a photo of <cat>"])
    family.predict(
        noisy, torch.tensor([500]), conditioning, time_ids=TIME_IDS
    ).square().sum().backward()
    for group in method.parameter_groups():
        assert all(rows.grad.any() for rows in group.parameters.values())


@each("name", ENCODERS)
def test_all_linear_layers_are_quantized_but_those_of_what_trains(name):
    last = ENCODERS[name][-1]
    family = quantized(name=name, trains=[last])
    counts = {
        part: sum(type(layer) is nn.Linear for layer in module.modules())
        for part, module in networks(family).items()
    }
    assert {part for part, count in counts.items() if count} == {last}
    assert {part for part, _ in layers(family)} == networks(family).keys() - {last}


def test_patterns_choose_layers_by_the_names_that_methods_know():
    family = quantized(patterns=[r"unet\..*attn2.*to_k", "text_encoder.*fc1"])
    paths = [path for _, path in layers(family)]
    assert paths
    assert all(path.endswith(("attn2.to_k", "mlp.fc1")) for path in paths)
    assert {part for part, _ in layers(family)} == {"unet", "te"}


@each(
    ("pattern", "words"),
    [
        ("attn2.to_kk", r"matches none of the \d+ frozen linear layers.*attn2\.to_k"),
        ("conv_in", "matches none"),
        ("text_encoder.*fc1", "matches none"),
        ("attn[", "not a regular expression"),
    ],
)
def test_a_pattern_without_layers_is_reported_with_names_like_it(pattern, words):
    with pytest.raises(UserError, match=words) as error:
        quantized(patterns=["attn1", pattern], trains=["te"])
    assert "hardware.quantized_layers.1.pattern" in str(error.value)


def test_a_family_in_which_everything_trains_is_reported():
    options = {"kind": "int8", "patterns": (), "device": torch.device("cpu")}
    (note,) = quantize_family(tiny.family(), trains=["unet", "te"], **options)
    assert "int8" in note


@each("kind", KINDS)
def test_the_unet_below_adapters_is_quantized_and_encoders_that_train_are_not(kind):
    assert {type(each) for each in KINDS.values()} == set(get_args(Adapter)), "one is not tested"
    assert unquantized_components(section(kind, text=True), "sdxl") == {"te1", "te2"}
    assert unquantized_components(section(kind, text=True), "sd15") == {"te"}
    assert unquantized_components(section(kind), "sdxl") == frozenset()


def test_cache_keys_distinguish_quantized_encoders():
    digests = [encoder_digests(family) for family in (tiny.family(), quantized(), quantized())]
    assert digests[1] == digests[2]
    assert digests[0].text not in (digests[1].text, encoder_digests(quantized("fp8")).text)
    assert digests[0].vae == digests[1].vae


@pytest.mark.parametrize(
    ("quantization", "offload"), cases([("int8", 0.0), ("nf4", 0.5)], [("nf4", 0.5)])
)
def test_on_a_gpu_it_gives_the_processors_numbers_wherever_layers_wait(quantization, offload):
    family = quantized(quantization)
    method = Adapters.attach(family, section("dora"), seed=0)
    shake(method)
    wanted, gradients = predict(family), backpropagate(family, method)
    for held in method.adapters.values():
        held.zero_grad(set_to_none=True)
    with pretend.accelerator() as gpu:
        device = torch.device("cuda")
        managed = manage_layers(
            family.layers(),
            LayerSettings("block", offload),
            train_device=device,
            offload_device=tiny.CPU,
        )
        put_networks(family, method, device, offloaded=managed.offloaded)
        family = replace(family, process=family.process.to(device))
        found = predict(family).cpu()
        trained = {name: gradient.cpu() for name, gradient in backpropagate(family, method).items()}
    packed = {own for layer in layers(family).values() for own in (layer.packed, layer.scales)}
    assert bool(managed.offloaded & packed) is bool(offload)
    assert gpu.to_device.count > 0
    assert torch.equal(found, wanted)
    assert all(torch.equal(trained[name], gradient) for name, gradient in gradients.items())


def put_networks(family, method, device, *, offloaded):
    """Everything to a device but what waits."""
    for module in (*networks(family).values(), *method.adapters.values()):
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor not in offloaded:
                tensor.data = tensor.data.to(device)
