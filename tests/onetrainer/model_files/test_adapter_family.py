"""The family of LoRAs, recognized by real models' layers: rightly or not at all."""

from functools import cache

import torch
from diffusers import FluxTransformer2DModel, HunyuanDiT2DModel, SD3Transformer2DModel

from modules.formats.lora.lora_names import NAMINGS
from modules.formats.lora.standard_names import standard_names
from onetrainer.cli.show import describe
from onetrainer.families.registry import folder_of, lora_components
from onetrainer.model_files.adapter_family import family_of_adapter
from onetrainer.model_files.inspection import inspect_model
from onetrainer.model_files.tensors import recognize
from onetrainer.tensor_files.table import read_table
from tests import headers
from tests.each import each

BASES = ("sd15", "sd2", "sdxl")
RANK = 4


def lora_of(name, shape):
    """The shapes of a LoRA of one layer, in peft's names."""
    outputs, inputs, *kernel = shape
    return {
        f"{name}.lora_A.weight": (RANK, inputs, *kernel),
        f"{name}.lora_B.weight": (outputs, RANK, *[1] * len(kernel)),
    }


@cache
def layers(base):
    """Every layer of a published model that a LoRA can be on, with its weight's shape."""
    names = standard_names(base)
    found = {}
    for part in lora_components(base):
        shapes = headers.shapes_of(base, folder_of(part))
        for layer in names.layers:
            shape = shapes.get(f"{layer.path}.weight", ())
            is_embedding = "embeddings" in layer.path
            if layer.component == part and len(shape) > 1 and not is_embedding:
                found[layer] = shape
    return found


@each("naming", NAMINGS)
@each("base", BASES)
def test_no_single_layer_of_any_base_is_recognized_wrongly(base, naming):
    names = standard_names(base)
    recognized = {
        layer: family_of_adapter(lora_of(names.name(layer, naming), shape), {})
        for layer, shape in layers(base).items()
    }
    assert set(recognized.values()) <= {base, None}
    context = {
        layer: kind for layer, kind in recognized.items() if layer.path.endswith("attn2.to_v")
    }
    assert set(context.values()) == {base}
    if base != "sd15":  # every layer of the text encoder that no other base has
        own = {
            layer: kind for layer, kind in recognized.items() if layer.component in ("te", "te2")
        }
        silent = [layer.path for layer, kind in own.items() if kind is None]
        assert all(path.endswith("mlp.fc2") for path in silent)


@each(
    ("key", "width", "family"),
    [
        ("lora_te_text_model_encoder_layers_0_mlp_fc1", 768, "sd15"),
        ("lora_te_text_model_encoder_layers_0_self_attn_q_proj", 1024, "sd2"),
        # The first text encoder of SD 1.x, of SDXL and of Flux.
        ("lora_te1_text_model_encoder_layers_0_mlp_fc1", 768, None),
        ("text_encoder.text_model.encoder.layers.0.mlp.fc1", 768, None),
        ("text_encoders.clip_l.transformer.text_model.encoder.layers.0.mlp.fc1", 768, None),
        ("text_encoders.clip_h.transformer.text_model.encoder.layers.0.mlp.fc2", 4096, "sd2"),
        ("lora_te_text_model_encoder_layers_22_mlp_fc2", 4096, "sd2"),
        ("text_encoder_2.encoder.block.0.layer.0.SelfAttention.q", 4096, None),  # T5
        ("lora_unet_label_emb_0_0", 2816, "sdxl"),
        ("lora_unet_output_blocks_1_1_proj_in", 1280, "sdxl"),
        ("unet.mid_block.attentions.0.transformer_blocks.9.ff.net.2", 2, "sdxl"),
        ("lora_unet_mid_block_attentions_0_proj_in", 1280, None),
        ("unet.up_blocks.0.resnets.0.conv1", 2560, None),
        ("unet.down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k", 1280, "sdxl-refiner"),
    ],
)
def test_one_layer_decides_its_family_where_no_other_has_it(key, width, family):
    assert family_of_adapter({f"{key}.lora_down.weight": (2, width)}, {}) == family


@each(
    "kinds",
    [
        {"lokr_w1": (4, 8), "lokr_w2_b": (2, 128)},
        {"lokr_w1_a": (4, 2), "lokr_w1_b": (2, 8), "lokr_w2": (8, 128)},
        {"hada_w1_a": (9, 2), "hada_w1_b": (2, 1024)},
        {"diff": (320, 1024)},
    ],
)
def test_width_is_read_from_other_methods_too(kinds):
    name = "lora_unet_mid_block_attentions_0_transformer_blocks_0_attn2_to_k"
    assert family_of_adapter({f"{name}.{kind}": s for kind, s in kinds.items()}, {}) == "sd2"


SILENT = {"lora_unet_mid_block_attentions_0_proj_in.lora_down.weight": (2, 1280)}
CLEAR = {"unet.mid_block.attentions.0.transformer_blocks.0.attn2.to_k.lora_A.weight": (2, 768)}


@each(
    ("metadata", "family"),
    [
        ({"ss_base_model_version": "sd_v2_v"}, "sd2"),
        ({"modelspec.architecture": "stable-diffusion-v1-inpainting/lora"}, "sd15"),
        ({"ss_base_model_version": "sdxl_base_v1-0"}, "sdxl"),
        ({"ss_v2": "True"}, "sd2"),
        ({"modelspec.architecture": "Flux-1-dev/lora"}, "flux"),
        ({"ss_base_model_version": "sd3-medium"}, "sd3"),
        ({"ss_base_model_version": "sd_v1", "modelspec.architecture": "flux-1-dev/lora"}, None),
        ({}, None),
    ],
)
def test_metadata_decides_where_layers_are_ambiguous_and_only_there(metadata, family):
    assert family_of_adapter(SILENT, metadata) == family
    assert family_of_adapter(CLEAR, metadata) == "sd15"


def test_layers_that_contradict_each_other_decide_nothing():
    mixed = CLEAR | {"lora_te2_text_model_encoder_layers_0_mlp_fc1.lora_down.weight": (2, 1280)}
    assert family_of_adapter(mixed, {}) is None


@cache
def foreign(kind):
    """The linear layers of a model that is none of ours."""
    with torch.device("meta"):
        model = {
            "flux": lambda: FluxTransformer2DModel(num_layers=2, num_single_layers=2),
            "sd3": lambda: SD3Transformer2DModel(num_layers=2),
            "hunyuan": lambda: HunyuanDiT2DModel(
                in_channels=4, patch_size=2, num_layers=2, cross_attention_dim=1024
            ),
        }[kind]()
    return {
        name.removesuffix(".weight"): tuple(tensor.shape)
        for name, tensor in model.state_dict().items()
        if name.endswith(".weight") and tensor.ndim == 2
    }


@each("kind", ["flux", "sd3", "hunyuan"])
@each("start", ["transformer.", "base_model.model.transformer.", ""])
def test_no_layer_of_other_models_is_taken_for_ours(kind, start):
    for name, shape in foreign(kind).items():
        assert family_of_adapter(lora_of(start + name, shape), {}) is None, name


@each(
    "layer",
    [
        "transformer.transformer_blocks.1.attn.to_q",
        "lora_unet_double_blocks_1_img_attn_qkv",
        "lora_unet_single_blocks_3_linear1",
        "diffusion_model.joint_blocks.3.context_block.attn.qkv",
        "lora_te3_encoder_block_0_layer_0_SelfAttention_q",
    ],
)
def test_second_text_encoder_of_other_models_is_not_sdxls(layer, tmp_path):
    second = "lora_te2_text_model_encoder_layers_0_mlp_fc1"
    shapes = lora_of(layer, (3072, 3072)) | lora_of(second, (5120, 1280))
    path = headers.write(tmp_path / "a.safetensors", shapes)
    assert (inspect_model(path).kind, describe(path).document["made_for"]) == ("lora", "")
    metadata = {"modelspec.architecture": "flux-1-dev/lora", "ss_base_model_version": "flux1"}
    headers.write(path, shapes, metadata=metadata)
    assert describe(path).document["made_for"] == "flux"


def test_show_takes_the_family_from_metadata_where_nothing_else_says_it(tmp_path):
    metadata = {"ss_base_model_version": "sd_v2_v"}
    path = headers.write(tmp_path / "a.safetensors", SILENT, metadata=metadata)
    assert describe(path).document["made_for"] == inspect_model(path).made_for == "sd2"
    assert recognize(read_table(path).entries, {}).made_for is None
