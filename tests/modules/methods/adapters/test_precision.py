"""What of a trained change is left in a file of half precision."""

import itertools

import pytest
import torch
from safetensors.torch import load_file

from modules.formats.lora.lora_file import LoraFile, read_lora, write_lora
from modules.formats.lora.lora_names import NAMINGS
from modules.methods.adapters.adapters import Adapters
from modules.methods.layers.layer_presets import layer_names
from modules.methods.merge import merge_loras
from onetrainer.model_files.inspection import inspect_model
from tests import tiny
from tests.adapters import KINDS, predict, section
from tests.batches import TIME_IDS
from tests.cases import cases
from tests.exports import export

# A few half steps of the formats (2**-11, 2**-8): a change is a product of matrices. Measured:
# 0.00003 (DoRA) to 0.0003, and 0.0004 (DoRA) to 0.0022.
BOUNDS = {torch.float16: 1e-3, torch.bfloat16: 1e-2}


def train(family, method, *, steps):
    """AdamW at 1e-4 toward another prediction than the model's: a change as small as real ones."""
    parameters = [p for group in method.parameter_groups() for p in group.parameters.values()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)
    generator = torch.Generator().manual_seed(2)
    noisy = torch.randn(1, 4, 16, 16, generator=generator)
    with torch.no_grad():
        conditioning = family.encode_text(["a cat"])
    target = torch.randn(noisy.shape, generator=generator)
    for _ in range(steps):
        got = family.predict(noisy, torch.tensor([500]), conditioning, time_ids=TIME_IDS)
        ((got - target) ** 2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def merged(path):
    """What a model predicts with a file merged into it."""
    family = tiny.family(compute_dtype=torch.float64)
    merge_loras(family, [(read_lora(path, layer_names(family)), 1.0)])
    return predict(family)


@pytest.mark.parametrize("kind", cases(KINDS, ["lora", "oft"]))
def test_a_file_of_half_precision_keeps_the_live_change(tmp_path, kind):
    # In float64, where differences of predictions are not made of rounding.
    family = tiny.family(compute_dtype=torch.float64)
    before = predict(family)
    method = Adapters.attach(family, section(kind), seed=0)
    train(family, method, steps=8)
    change = predict(family) - before
    for dtype, bound in BOUNDS.items():
        path = tmp_path / "lora.safetensors"
        export(method, path, dtype=dtype, metadata={})
        lost = (merged(path) - before - change).norm() / change.norm()
        assert lost < bound


@pytest.mark.parametrize(
    ("naming", "dtype"),
    cases(
        itertools.product(NAMINGS, BOUNDS),
        [("kohya", torch.float16), ("comfyui", torch.bfloat16), ("diffusers", torch.float16)],
    ),
)
def test_lengths_come_whole_through_every_naming(tmp_path, naming, dtype):
    family, path = tiny.family(), tmp_path / "dora.safetensors"
    names = layer_names(family)
    export(Adapters.attach(family, section("dora"), seed=0), path, dtype=dtype, metadata={})
    # Of outputs, since diffusers has no names for others.
    layers = {
        layer: {**kinds, "dora_scale": torch.rand(len(kinds["lora_up.weight"]), 1)}
        for layer, kinds in read_lora(path, names).layers.items()
    }
    write_lora(path, LoraFile(layers, {}, {}, {}, "kohya"), names, naming=naming, dtype=dtype)
    for layer, kinds in read_lora(path, names).layers.items():
        length = kinds["dora_scale"].flatten()
        assert torch.equal(length, layers[layer]["dora_scale"].flatten())
    types = [tensor.dtype for key, tensor in load_file(path).items() if "lora_" in key]
    assert types.count(dtype) >= 2 * len(layers)
    assert inspect_model(path).precision == {torch.float16: "fp16", torch.bfloat16: "bf16"}[dtype]
