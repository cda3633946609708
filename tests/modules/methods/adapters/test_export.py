"""The files of adapters: what they hold, and what other programs make of them."""

import json

import pytest
import torch
from lycoris.wrapper import network_module_dict
from torch import nn

from modules.formats.lora.lora_file import read_lora
from modules.formats.lora.lora_keys import rank_of
from modules.methods.adapters.adapters import Adapters
from modules.methods.adapters.weight_formulas import merged_weight
from modules.methods.layers.layer_presets import layer_names, named_layers
from tests import tiny
from tests.adapters import KINDS, section, shake
from tests.cases import cases
from tests.close import close
from tests.each import each
from tests.exports import export


def trained(kind, **changes):
    family = tiny.family()
    method = Adapters.attach(family, section(kind, targets="full", **changes), seed=0)
    shake(method)
    return family, method


def read(method, family, path, **options):
    export(method, path, dtype=torch.float32, metadata={}, **options)
    return read_lora(path, layer_names(family))


@pytest.mark.parametrize("kind", cases(KINDS, ["dora", "loha", "lokr-both"]))
def test_alpha_written_as_the_rank_has_the_same_effect(tmp_path, kind):
    family, method = trained(kind)
    real = read(method, family, tmp_path / "real.safetensors")
    folded = read(method, family, tmp_path / "folded.safetensors", fold_alpha=True)
    modules = dict(named_layers(family))
    for layer, kinds in folded.layers.items():
        rank, weight = rank_of(kinds), modules[layer].weight.double()
        if rank is not None:
            assert float(kinds["alpha"]) == rank != float(real.layers[layer]["alpha"])
        one, other = (
            merged_weight(weight, {k: t.double() for k, t in found.items()}, 1.0)
            for found in (real.layers[layer], kinds)
        )
        close(other, one)
    if kind != "ia3" and "oft" not in kind:  # neither has a rank
        rank = str(KINDS[kind].rank)
        assert folded.metadata["ss_network_alpha"] == folded.metadata["ss_network_dim"] == rank


@pytest.mark.parametrize(
    "kind",
    cases(["oft", "oft-constrained", "lokr-whole", "lokr"], ["oft-constrained", "lokr"]),
)
def test_lycoris_makes_the_same_of_the_file(tmp_path, kind):
    # LyCORIS multiplies LoKr by its scale twice, LoHa too, and reads other lengths for DoRA's.
    changes = {"rank": 2, "alpha": 2.0} if kind == "lokr" else {}
    family, method = trained(kind, **changes)
    file = read(method, family, tmp_path / "adapter.safetensors")
    own = network_module_dict["diag-oft" if "oft" in kind else "lokr"]
    for layer, module in named_layers(family):
        kinds = file.layers.get(layer, {})
        if not kinds or not isinstance(module, nn.Linear | nn.Conv2d):
            continue
        tensors = own.extract_state_dict({f"x.{k}": t for k, t in kinds.items()}, "x")
        with torch.no_grad():
            theirs = own.make_module_from_state_dict("x", module, *tensors)
            expected = theirs.get_merged_weight(1, module.weight.shape)[0]
        ours = merged_weight(module.weight, kinds, 1.0)
        close(ours, expected)


def test_comfyui_makes_the_same_of_doras_file(tmp_path):
    family, method = trained("dora")
    file = read(method, family, tmp_path / "adapter.safetensors")
    for layer, module in named_layers(family):
        if layer not in file.layers:
            continue
        kinds, weight = file.layers[layer], module.weight.detach()
        up, down = kinds["lora_up.weight"].flatten(1), kinds["lora_down.weight"].flatten(1)
        # comfyanonymous/ComfyUI, comfy/weight_adapter/base.py, weight_decompose: inputs first.
        found = weight + (kinds["alpha"] / len(down)) * (up @ down).reshape(weight.shape)
        inputs = found.transpose(0, 1).reshape(found.shape[1], -1)
        norm = inputs.norm(dim=1).reshape(1, -1, *[1] * (weight.ndim - 2))
        expected = found * (kinds["dora_scale"] / norm)
        ours = merged_weight(weight, kinds, 1.0)
        close(ours, expected)


@each(
    ("kind", "module", "arguments"),
    [
        ("lora", "networks.lora", {"conv_dim": "4", "conv_alpha": "2.0"}),
        ("dora", "lycoris.kohya", {"algo": "lora", "dora_wd": "True", "wd_on_output": "False",
                                   "conv_dim": "4", "conv_alpha": "2.0"}),
        ("loha", "lycoris.kohya", {"algo": "loha", "conv_dim": "4", "conv_alpha": "2.0"}),
        ("lokr", "lycoris.kohya", {"algo": "lokr", "factor": "2", "decompose_both": "False",
                                   "full_matrix": "False", "conv_dim": "2", "conv_alpha": "1.0"}),
        ("oft", "lycoris.kohya", {"algo": "diag-oft", "constraint": "0.0"}),
    ],
)  # fmt: skip
def test_files_say_under_kohyas_keys_what_they_are(tmp_path, kind, module, arguments):
    family, method = trained(kind)
    metadata = read(method, family, tmp_path / "adapter.safetensors").metadata
    assert metadata["ss_network_module"] == module
    assert json.loads(metadata["ss_network_args"]) == arguments
