from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from modules.formats.lora.lora_file import LoraFile, read_lora
from modules.formats.lora.lora_names import Layer
from modules.methods.adapters.adapters import Adapters
from modules.methods.layers.layer_presets import layer_names
from modules.methods.merge import merge_loras
from onetrainer.config.methods.low_rank import Lora as LoraSection
from onetrainer.errors import UserError
from tests import exports, tiny
from tests.batches import TIME_IDS
from tests.cases import cases
from tests.close import close


def predict(family) -> torch.Tensor:
    noisy = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(2))
    conditioning = family.encode_text(["a cat"])
    with torch.no_grad():
        return family.predict(noisy, torch.tensor([500]), conditioning, time_ids=TIME_IDS)


def export(folder: Path, name: str, *, seed: int = 0, naming: str = "kohya"):
    """A family with adapters, and the file they become."""
    family = tiny.family(name)
    section = LoraSection(rank=4, alpha=2.0, targets="full", **tiny.encoders(True))
    method = Adapters.attach(family, section, seed=seed)
    generator = torch.Generator().manual_seed(seed + 1)
    for key, tensor in method.state_dict().items():
        if key.endswith("lora_up.weight"):
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.3)
    path = folder / f"lora-{seed}.safetensors"
    exports.export(method, path, dtype=torch.float32, metadata={}, naming=naming)
    return family, path


@pytest.mark.parametrize(
    ("name", "naming"),
    cases(
        [
            ("sd15", "kohya"),
            ("sd2", "comfyui"),
            ("sdxl", "diffusers"),
            ("sdxl-inpainting", "kohya"),
        ],
        [("sdxl", "diffusers")],
    ),
)
def test_merged_weights_compute_what_attached_adapters_do(tmp_path, name, naming):
    adapted, path = export(tmp_path, name, naming=naming)
    merged = tiny.family(name)
    before = predict(merged)
    assert merge_loras(merged, [(read_lora(path, layer_names(merged)), 1.0)]) == []
    assert (predict(merged) - before).abs().max() > 0.05
    close(predict(merged), predict(adapted))


def test_several_files_add_up_each_with_its_strength(tmp_path):
    family = tiny.family()
    names = layer_names(family)
    files = [read_lora(export(tmp_path, "sd15", seed=seed)[1], names) for seed in (1, 2)]
    before = {name: tensor.clone() for name, tensor in family.unet.state_dict().items()}
    merge_loras(family, [(files[0], 0.5), (files[1], -2.0)])
    layer = Layer("unet", "mid_block.attentions.0.transformer_blocks.0.attn2.to_k")
    expected = before[f"{layer.path}.weight"].double()
    for file, strength in zip(files, (0.5, -2.0), strict=True):
        kinds = file.layers[layer]
        product = kinds["lora_up.weight"].double() @ kinds["lora_down.weight"].double()
        expected += strength * 2 / 4 * product
    found = family.unet.get_parameter(f"{layer.path}.weight")
    close(found, expected)


def test_half_precision_weights_are_rounded_once():
    family = tiny.family(compute_dtype=torch.bfloat16)
    layer = Layer("unet", "conv_in")
    before = family.unet.conv_in.weight.float()
    change = torch.randn(before.shape, generator=torch.Generator().manual_seed(0)) * 0.01
    file = LoraFile({layer: {"diff": change}}, {}, {}, {}, "kohya")
    merge_loras(family, [(file, 1.0), (file, 1.0)])
    assert family.unet.conv_in.weight.dtype == torch.bfloat16
    assert torch.equal(family.unet.conv_in.weight, (before + change + change).bfloat16())


@pytest.mark.parametrize(
    "layer",
    ["transformer.transformer_blocks.1.attn.to_q", "lora_unet_double_blocks_1_img_attn_qkv"],
)
def test_a_file_for_another_model_family_is_refused(tmp_path, family, layer):
    path = tmp_path / "flux.safetensors"
    save_file({f"{layer}.lora_A.weight": torch.ones(2, 8)}, path)
    with pytest.raises(UserError, match="layers that this model does not have"):
        merge_loras(family, [(read_lora(path, layer_names(family)), 1.0)])


def test_a_file_of_the_same_names_and_other_widths_is_refused(tmp_path):
    _, path = export(tmp_path, "sd15")
    family = tiny.family("sd2")
    with pytest.raises(UserError, match=r"does not fit this layer"):
        merge_loras(family, [(read_lora(path, layer_names(family)), 1.0)])


def test_layers_of_text_encoders_that_nobody_knows_are_reported(family):
    # sd-scripts 0.9.0 trained such, its issue 1964.
    key = "lora_te_text_model_encoder_layers_0_self_attn.lora_down.weight"
    notes = merge_loras(family, [(LoraFile({}, {}, {key: torch.ones(1)}, {}, "kohya"), 1.0)])
    assert len(notes) == 1
    assert "1 tensors match no layer and are ignored" in notes[0]
    assert key in notes[0]
