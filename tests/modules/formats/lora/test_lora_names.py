import json
from functools import cache

import torch
from diffusers import UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

from modules.formats.files.component_configs import MODELS
from modules.formats.lora.lora_names import Layer, LayerNames
from modules.formats.lora.standard_names import standard_names
from modules.methods.adapters.layer_settings import plan_adapters
from onetrainer.config.methods.low_rank import Lora
from tests.each import each

# Of one layer each: diffusers' path, kohya's name for SDXL, ComfyUI's path. The names are those
# that sd-scripts and ComfyUI publish.
SDXL = [
    (
        "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q",
        "lora_unet_input_blocks_4_1_transformer_blocks_0_attn1_to_q",
    ),
    (
        "down_blocks.2.attentions.1.transformer_blocks.9.ff.net.0.proj",
        "lora_unet_input_blocks_8_1_transformer_blocks_9_ff_net_0_proj",
    ),
    ("mid_block.attentions.0.proj_in", "lora_unet_middle_block_1_proj_in"),
    ("mid_block.resnets.1.conv1", "lora_unet_middle_block_2_in_layers_2"),
    (
        "up_blocks.1.attentions.2.transformer_blocks.1.attn2.to_out.0",
        "lora_unet_output_blocks_5_1_transformer_blocks_1_attn2_to_out_0",
    ),
    ("down_blocks.0.resnets.1.conv2", "lora_unet_input_blocks_2_0_out_layers_3"),
    ("down_blocks.1.resnets.0.conv_shortcut", "lora_unet_input_blocks_4_0_skip_connection"),
    ("up_blocks.2.resnets.2.time_emb_proj", "lora_unet_output_blocks_8_0_emb_layers_1"),
    ("down_blocks.0.downsamplers.0.conv", "lora_unet_input_blocks_3_0_op"),
    ("up_blocks.0.upsamplers.0.conv", "lora_unet_output_blocks_2_2_conv"),
    ("time_embedding.linear_2", "lora_unet_time_embed_2"),
    ("add_embedding.linear_1", "lora_unet_label_emb_0_0"),
    ("conv_out", "lora_unet_out_2"),
]


@cache
def empty(base: str, component: str):
    config = json.loads((MODELS / base / component / "config.json").read_text())
    with torch.device("meta"):
        if component == "unet":
            return UNet2DConditionModel.from_config(config)
        kind = CLIPTextModelWithProjection if component == "text_encoder_2" else CLIPTextModel
        return kind(CLIPTextConfig(**config))


# sd-scripts' own counts. Apart from convolutions "full" has conv_in, conv_out and the linear layers
# of the embeddings of time and, for SDXL, of sizes, as LyCORIS has.
@each(
    ("base", "linear", "convolutions", "others"),
    [("sd15", 192, 278, 4), ("sd2", 192, 278, 4), ("sdxl", 722, 788, 6)],
)
def test_full_size_unets_have_as_many_layers_as_sd_scripts_counts(
    base, linear, convolutions, others
):
    unet = empty(base, "unet")
    for targets, count in (("attn-mlp", linear), ("full", convolutions + others)):
        chosen, notes = plan_adapters({"unet": unet}, Lora(targets=targets))
        assert (len(chosen), notes) == (count, ())


@each(
    ("base", "count"),
    [("sd15", {"te": 72}), ("sd2", {"te": 138}), ("sdxl", {"te1": 72, "te2": 192})],
)
def test_full_size_text_encoders_have_as_many_layers_as_sd_scripts_counts(base, count):
    components = {"te": "text_encoder", "te1": "text_encoder", "te2": "text_encoder_2"}
    found = {
        part: len(plan_adapters({part: empty(base, components[part])}, Lora(targets="full"))[0])
        for part in count
    }
    assert found == count


@each("base", ["sd15", "sd2", "sdxl"])
def test_every_layer_of_the_full_size_models_has_one_name_in_every_naming(base):
    names = standard_names(base)
    for naming in ("kohya", "diffusers", "comfyui"):
        written = [names.name(layer, naming) for layer in names.layers]
        assert len(set(written)) == len(written)
        assert [names.find(name) for name in written] == names.layers


@each(("path", "kohya"), SDXL)
def test_sdxl_names_are_those_of_sd_scripts(path, kohya):
    names, layer = standard_names("sdxl"), Layer("unet", path)
    assert names.name(layer, "kohya") == kohya
    assert names.name(layer, "comfyui").replace(".", "_") == kohya.replace(
        "lora_unet_", "diffusion_model_"
    )
    assert names.name(layer, "diffusers") == f"unet.{path}"


def test_text_encoders_have_the_prefixes_that_programs_read():
    path = "text_model.encoder.layers.3.mlp.fc1"
    written = {
        ("sd15", "te"): ("lora_te_", "text_encoder.", "text_encoders.clip_l.transformer."),
        ("sd2", "te"): ("lora_te_", "text_encoder.", "text_encoders.clip_h.transformer."),
        ("sdxl", "te1"): ("lora_te1_", "text_encoder.", "text_encoders.clip_l.transformer."),
        ("sdxl", "te2"): ("lora_te2_", "text_encoder_2.", "text_encoders.clip_g.transformer."),
    }
    for (base, part), (kohya, diffusers, comfyui) in written.items():
        names, layer = standard_names(base), Layer(part, path)
        assert names.name(layer, "kohya") == kohya + path.replace(".", "_")
        assert names.name(layer, "diffusers") == diffusers + path
        assert names.name(layer, "comfyui") == comfyui + path


FC1, FC2 = ("text_model.encoder.layers.0.mlp.fc1", "text_model.encoder.layers.31.mlp.fc2")
PROJ, CONV = "mid_block.attentions.0.proj_in", "mid_block.resnets.0.conv1"
DOWN_PROJ = "down_blocks.1.attentions.0.proj_in"
SPELLINGS = [
    ("sd15", "unet.mid_block.attentions.0.proj_in", ("unet", PROJ)),
    ("sd15", "base_model.model.conv_in", ("unet", "conv_in")),
    ("sd15", "base_model.model.unet.conv_in", ("unet", "conv_in")),
    ("sd15", "lycoris_mid_block_resnets_0_conv1", ("unet", CONV)),
    ("sd15", "lora_unet_middle_block_0_in_layers_2", ("unet", CONV)),
    ("sd15", "oft_unet_mid_block_attentions_0_proj_in", ("unet", PROJ)),
    ("sd15", "lora_te1_text_model_encoder_layers_0_mlp_fc1", ("te", FC1)),
    ("sd15", "lora_te_encoder_layers_0_mlp_fc1", ("te", FC1)),
    ("sd15", "text_encoder.encoder.layers.0.mlp.fc1", ("te", FC1)),
    ("sdxl", "lora_unet_down_blocks_1_attentions_0_proj_in", ("unet", DOWN_PROJ)),
    ("sdxl", "model.diffusion_model.label_emb.0.2", ("unet", "add_embedding.linear_2")),
    ("sdxl", "input_blocks.4.1.proj_in", ("unet", DOWN_PROJ)),
    ("sdxl", "lora_te2_text_projection", ("te2", "text_projection")),
    ("sdxl", "text_encoder_2.encoder.layers.31.mlp.fc2", ("te2", FC2)),
]


@each(("base", "name", "layer"), SPELLINGS)
def test_other_spellings_are_understood(base, name, layer):
    assert standard_names(base).find(name) == Layer(*layer)


def test_text_encoders_without_their_first_level_have_the_same_names():
    kohya_path, nested = (
        LayerNames.of("sd15", {"te": [f"{level}encoder.layers.0.mlp.fc1.weight"]})
        for level in ("", "text_model.")
    )
    assert kohya_path == nested
