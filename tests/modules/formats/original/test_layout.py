"""Full-size shapes on the meta device, against diffusers' own converters."""

import json
import re

import pytest
import torch
from diffusers.loaders.single_file_utils import (
    convert_ldm_clip_checkpoint,
    convert_ldm_unet_checkpoint,
    convert_ldm_vae_checkpoint,
    convert_open_clip_checkpoint,
)
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from safetensors.torch import save_file
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

from modules.formats.files.tensor_source import open_tensors
from modules.formats.original.layout import (
    open_component,
    read_component,
    to_original,
    unused_names,
)
from modules.formats.original.recipe import split
from onetrainer import ROOT
from onetrainer.errors import UserError
from onetrainer.families.registry import family_spec
from onetrainer.families.stable_diffusion import SD15, SDXL
from onetrainer.model_files.original.layout import recipes
from tests.close import close
from tests.each import each

MODELS = ROOT / "configs" / "models"
CPU = torch.device("cpu")


def config_of(base, component):
    return json.loads((MODELS / base / component / "config.json").read_text())


def model_of(base, component):
    config = config_of(base, component)
    with torch.device("meta"):
        match component:
            case "unet":
                return UNet2DConditionModel.from_config(config)
            case "vae":
                return AutoencoderKL.from_config(config)
            case "text_encoder":
                return CLIPTextModel(CLIPTextConfig(**config))
            case "text_encoder_2":
                return CLIPTextModelWithProjection(CLIPTextConfig(**config))


def canonical_state(base, component):
    state = model_of(base, component).state_dict()
    if not component.startswith("text_encoder"):
        return state
    level = ("text_model.", "text_projection.")
    return {n if n.startswith(level) else f"text_model.{n}": t for n, t in state.items()}


def original_of(base, component, state):
    lazy = to_original(recipes(family_spec(base).components[component], state), state)
    return {name: tensor.read() for name, tensor in lazy.items()}


def shapes_of(state):
    return {name: tensor.shape for name, tensor in state.items()}


# As counted in files of the published models: without position ids, SD 2's text projection and its
# last layer, and logit scales.
@each(("base", "count"), [("sd15", 1130), ("sd2", 1214), ("sdxl", 2513)])
def test_full_size_models_map_both_ways_with_no_key_left_over(base, count):
    names = set()
    for component in family_spec(base).components:
        state = canonical_state(base, component)
        found = recipes(family_spec(base).components[component], state)
        assert sorted(name for recipe in found for name in recipe.ours) == sorted(state)
        original = original_of(base, component, state)
        for recipe in found:
            parts = split(recipe, original[recipe.original], [state[n].shape for n in recipe.ours])
            assert [part.shape for part in parts] == [state[n].shape for n in recipe.ours]
        assert not names & original.keys()
        assert not unused_names(original, found)
        names |= original.keys()
    assert len(names) == count


@each("base", ["sd15", "sd2", "sdxl"])
def test_full_size_networks_convert_back_by_diffusers_own_code(base):
    for component, convert in (
        ("unet", convert_ldm_unet_checkpoint),
        ("vae", convert_ldm_vae_checkpoint),
    ):
        state = canonical_state(base, component)
        back = convert(original_of(base, component, state), config_of(base, component))
        # SD 2's and SDXL's linear projections keep their two sides.
        assert shapes_of(back) == shapes_of(state)


@each(
    ("base", "component", "prefix"),
    [
        ("sd15", "text_encoder", None),
        ("sdxl", "text_encoder", None),
        ("sd2", "text_encoder", "cond_stage_model.model."),
        ("sdxl", "text_encoder_2", "conditioner.embedders.1.model."),
    ],
)
def test_full_size_text_encoders_convert_back_by_diffusers_own_code(base, component, prefix):
    state = canonical_state(base, component)
    original = original_of(base, component, state)
    if prefix is None:
        back = convert_ldm_clip_checkpoint(original)
    else:
        back = convert_open_clip_checkpoint(model_of(base, component), original, prefix=prefix)
    assert shapes_of(back) == shapes_of(state)


def small_open_clip():
    """Every tensor another, and more columns than rows in the projection."""
    config = {
        **config_of("sdxl", "text_encoder_2"),
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "projection_dim": 12,
        "vocab_size": 64,
    }
    generator = torch.Generator().manual_seed(0)
    model = CLIPTextModelWithProjection(CLIPTextConfig(**config))
    return model, {
        name: torch.randn(tensor.shape, generator=generator)
        for name, tensor in model.state_dict().items()
    }


def test_open_clip_tensors_equal_what_diffusers_makes_of_them():
    model, state = small_open_clip()
    original = original_of("sdxl", "text_encoder_2", state)
    assert original["conditioner.embedders.1.model.text_projection"].shape == (16, 12)
    back = convert_open_clip_checkpoint(model, original, prefix="conditioner.embedders.1.model.")
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], state[name]) for name in state)


def test_original_projection_multiplies_the_pooled_vector_from_the_right():
    model, state = small_open_clip()
    model.load_state_dict(state)
    original = original_of("sdxl", "text_encoder_2", state)
    pooled = torch.randn(3, 16, generator=torch.Generator().manual_seed(1))
    # As OpenCLIP's model does: `x @ self.text_projection`.
    expected = pooled @ original["conditioner.embedders.1.model.text_projection"]
    close(model.text_projection(pooled), expected)


def read(path, base, component, state):
    with open_tensors(path) as reader:
        found, shapes = recipes(family_spec(base).components[component], state), shapes_of(state)
        lazy = open_component(reader, found, shapes)
        return (
            read_component(reader, found, shapes, dtype=torch.float32, device=CPU),
            {name: tensor.read() for name, tensor in lazy.items()},
        )


def test_component_is_read_from_a_file_at_once_and_lazily(tmp_path):
    _, state = small_open_clip()
    original = original_of("sdxl", "text_encoder_2", state)
    save_file({n: t.contiguous() for n, t in original.items()}, tmp_path / "x.safetensors")
    for found in read(tmp_path / "x.safetensors", "sdxl", "text_encoder_2", state):
        assert found.keys() == state.keys()
        assert all(torch.equal(found[name], state[name]) for name in state)


def test_tensors_that_are_fused_in_the_file_have_memory_of_their_own(tmp_path):
    _, state = small_open_clip()
    original = original_of("sdxl", "text_encoder_2", state)
    save_file({n: t.contiguous() for n, t in original.items()}, tmp_path / "x.safetensors")
    found, _ = read(tmp_path / "x.safetensors", "sdxl", "text_encoder_2", state)
    assert len({t.untyped_storage().data_ptr() for t in found.values()}) == len(found)
    assert all(t.is_contiguous() for t in found.values())


@pytest.mark.parametrize("component", ["unet", "vae"])
def test_linear_layers_written_as_convolutions_are_read_and_the_other_way_round(
    tmp_path, component
):
    ours, original = {
        "unet": (
            "down_blocks.0.attentions.0.proj_in.weight",
            "model.diffusion_model.input_blocks.1.1.proj_in.weight",
        ),
        "vae": (
            "encoder.mid_block.attentions.0.to_q.weight",
            "first_stage_model.encoder.mid.attn_1.q.weight",
        ),
    }[component]
    weight = torch.randn(4, 4)
    for stored in (weight, weight[:, :, None, None]):
        save_file({original: stored.contiguous()}, tmp_path / "x.safetensors")
        for shape in ((4, 4), (4, 4, 1, 1)):
            found, _ = read(
                tmp_path / "x.safetensors", "sd2", component, {ours: weight.view(shape)}
            )
            assert torch.equal(found[ours], weight.view(shape))


def test_old_file_without_text_model_level_is_read(tmp_path):
    name = "text_model.final_layer_norm.bias"
    state = {name: torch.arange(3.0)}
    save_file(
        {"cond_stage_model.transformer.final_layer_norm.bias": state[name]},
        tmp_path / "x.safetensors",
    )
    found, _ = read(tmp_path / "x.safetensors", "sd15", "text_encoder", state)
    assert torch.equal(found[name], state[name])


def test_missing_and_misshapen_tensors_are_named_as_in_the_file(tmp_path):
    state = {"conv_in.weight": torch.zeros(8, 4, 3, 3), "conv_in.bias": torch.zeros(8)}
    start = "model.diffusion_model.input_blocks.0.0."
    save_file({start + "weight": torch.zeros(8, 9, 3, 3)}, tmp_path / "x.safetensors")
    first = re.escape(
        f"x.safetensors: 1 tensor is missing and 1 of another shape, first {start}bias"
    )
    with pytest.raises(UserError, match=first):
        read(tmp_path / "x.safetensors", "sd15", "unet", state)


def test_leftovers_are_what_no_recipe_takes():
    found = recipes(SD15.components["text_encoder"], ["text_model.final_layer_norm.bias"])
    start = "cond_stage_model.transformer."
    assert unused_names(
        [
            f"{start}text_model.final_layer_norm.bias",
            f"{start}final_layer_norm.bias",
            f"{start}text_model.embeddings.position_ids",
            "alphas_cumprod",
        ],
        found,
    ) == ["alphas_cumprod", f"{start}text_model.embeddings.position_ids"]


def test_known_names():
    found = recipes(
        SD15.unet,
        [
            "down_blocks.1.downsamplers.0.conv.bias",
            "up_blocks.0.upsamplers.0.conv.weight",
            "up_blocks.1.upsamplers.0.conv.weight",
            "up_blocks.1.attentions.2.norm.weight",
            "mid_block.resnets.1.conv_shortcut.weight",
        ],
    )
    # As in the file that Stable Diffusion 1.x was published in.
    assert [recipe.original.removeprefix("model.diffusion_model.") for recipe in found] == [
        "input_blocks.6.0.op.bias",
        "middle_block.2.skip_connection.weight",
        "output_blocks.2.1.conv.weight",
        "output_blocks.5.1.norm.weight",
        "output_blocks.5.2.conv.weight",
    ]


def test_scaled_weights_are_refused_at_once_and_lazily(tmp_path):
    _, state = small_open_clip()
    original = {n: t.contiguous() for n, t in original_of("sdxl", "text_encoder_2", state).items()}
    layer = "conditioner.embedders.1.model.transformer.resblocks.0.mlp.c_fc"
    original[f"{layer}.weight"] = original[f"{layer}.weight"].to(torch.float8_e4m3fn)
    scale = {f"{layer}.scale_weight": torch.tensor(0.5)}
    save_file(original | scale, tmp_path / "x.safetensors")
    found, shapes = recipes(SDXL.components["text_encoder_2"], state), shapes_of(state)
    with open_tensors(tmp_path / "x.safetensors") as reader:
        with pytest.raises(UserError, match=r"x\.safetensors: 1 tensors are stored as scaled fp8"):
            read_component(reader, found, shapes, dtype=torch.float32, device=CPU)
        with pytest.raises(UserError, match="scaled fp8"):
            open_component(reader, found, shapes)
