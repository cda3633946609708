"""Files recognized by the names and shapes of their tensors, full size and tiny."""

import pytest

from onetrainer.errors import UserError
from onetrainer.model_files.choices import require_family
from onetrainer.model_files.inspection import inspect_model, inspect_table
from onetrainer.tensor_files.table import read_table
from tests import headers, tiny
from tests.each import each

UNET = "model.diffusion_model."
CONV_IN = UNET + "input_blocks.0.0.weight"
BASES = ("sd15", "sd2", "sdxl")
VAE, TEXT = "first_stage_model.", ("cond_stage_model.", "conditioner.")
# Width of the text that each UNet reads, and of the text encoders.
CONTEXT = {"sd15": 768, "sd2": 1024, "sdxl": 2048}


def inspect(tmp_path, shapes, **options):
    return inspect_model(headers.write(tmp_path / "m.safetensors", shapes, **options))


@each("base", BASES)
def test_single_file_of_other_widths_than_the_published_is_noticed(tmp_path, base):
    published = headers.full_size(base)
    assert not inspect(tmp_path, published).has_unusual_size
    assert not inspect(tmp_path, with_channels(published, 9)).has_unusual_size  # to inpaint
    assert inspect(tmp_path, {**published, CONV_IN: (32, 4, 3, 3)}).has_unusual_size
    context = next(name for name in published if name.endswith(".attn2.to_k.weight"))
    narrow = {**published, context: (published[context][0], 56)}
    assert inspect(tmp_path, narrow).has_unusual_size


@each(
    ("key", "word", "family"),
    [
        ("modelspec.architecture", "stable-diffusion-v1/textual-inversion", "sd15"),
        ("modelspec.architecture", "stable-diffusion-xl-v1-base/vae", "sdxl"),
        ("ss_base_model_version", "sd_v2", "sd2"),
        ("ss_base_model_version", "", None),
    ],
)
@each("shapes", [{"emb_params": (4, 56)}, {"decoder.conv_in.weight": (8, 4, 3, 3)}])
def test_metadata_names_the_family_of_a_component_where_its_shapes_do_not(
    tmp_path, shapes, key, word, family
):
    assert inspect(tmp_path, shapes, metadata={key: word}).made_for == family


def test_width_of_an_embedding_counts_more_than_its_metadata(tmp_path):
    said = {"ss_base_model_version": "sdxl_base_v1-0"}
    assert inspect(tmp_path, {"emb_params": (4, 768)}, metadata=said).made_for == "sd15"


def without(shapes, *prefixes):
    return {name: shape for name, shape in shapes.items() if not name.startswith(prefixes)}


def with_channels(shapes, channels):
    out, _, *kernel = shapes[CONV_IN]
    return {**shapes, CONV_IN: (out, channels, *kernel)}


@each("base", BASES)
def test_published_models_are_recognized(tmp_path, base):
    model = inspect(tmp_path, headers.full_size(base))
    assert (model.kind, model.missing, model.unet_channels) == (base, (), 4)
    assert (model.precision, model.has_ema, model.made_for) == ("fp16", False, None)


@each(
    ("base", "part", "word"),
    [
        *((base, UNET, "UNet") for base in BASES),
        *((base, VAE, "VAE") for base in BASES),
        *((base, "cond_stage_model.", "text encoder") for base in ("sd15", "sd2")),
        ("sdxl", "conditioner.embedders.0.", "text encoder"),
        ("sdxl", "conditioner.embedders.1.", "second text encoder"),
    ],
)
def test_every_part_is_needed_and_named(tmp_path, base, part, word):
    model = inspect(tmp_path, without(headers.full_size(base), part))
    assert (model.kind, model.missing) == (base, (word,))


@each("base", BASES)
def test_nine_channels_are_inpainting_and_other_numbers_unknown(tmp_path, base):
    shapes = headers.full_size(base)
    assert inspect(tmp_path, with_channels(shapes, 9)).kind == f"{base}-inpainting"
    assert inspect(tmp_path, with_channels(shapes, 8)).kind == "unknown"
    five = inspect(tmp_path, with_channels(shapes, 5)).kind
    assert five == ("sd2-depth" if base == "sd2" else "unknown")


@each("base", BASES)
def test_model_without_text_encoders_is_recognized_by_its_unet(tmp_path, base):
    left = without(headers.full_size(base), *TEXT)
    words = ("text encoder", "second text encoder") if base == "sdxl" else ("text encoder",)
    model = inspect(tmp_path, left)
    assert (model.kind, model.missing) == (base, words)


@each("base", BASES)
def test_unet_alone_is_recognized_with_its_family(tmp_path, base):
    left = without(headers.full_size(base), VAE, *TEXT)
    assert inspect(tmp_path, left).kind == "unet"
    for prefix in (UNET, "diffusion_model.", ""):
        model = inspect(tmp_path, {prefix + n.removeprefix(UNET): s for n, s in left.items()})
        assert (model.kind, model.made_for) == ("unet", base)
    model = inspect(tmp_path, headers.shapes_of(base, "unet"))
    assert (model.kind, model.made_for, model.unet_channels) == ("unet", base, 4)


def test_sd2_unet_whose_matrices_are_written_as_convolutions_is_recognized_by_its_width(tmp_path):
    left = without(headers.full_size("sd2"), VAE, *TEXT)
    convolved = {
        n: (*s, 1, 1) if n.endswith(("proj_in.weight", "proj_out.weight")) else s
        for n, s in left.items()
    }
    assert convolved != left
    assert inspect(tmp_path, convolved).made_for == "sd2"


@each("base", BASES)
def test_vae_and_text_encoder_alone_are_recognized(tmp_path, base):
    whole = headers.full_size(base)
    vae = {n: s for n, s in whole.items() if n.startswith(VAE)}
    assert inspect(tmp_path, vae).kind == "vae"
    assert inspect(tmp_path, {n.removeprefix(VAE): s for n, s in vae.items()}).kind == "vae"
    assert inspect(tmp_path, headers.shapes_of(base, "vae")).kind == "vae"
    text = {n: s for n, s in whole.items() if n.startswith(TEXT)}
    assert inspect(tmp_path, text).kind == "text-encoder"
    assert inspect(tmp_path, headers.shapes_of(base, "text_encoder")).kind == "text-encoder"


def test_vae_of_other_models_is_unknown(tmp_path):
    shapes = headers.shapes_of("sdxl", "vae") | {"decoder.conv_in.weight": (512, 16, 3, 3)}
    assert inspect(tmp_path, shapes).kind == "unknown"


def test_ema_weights_are_recognized(tmp_path):
    shapes = headers.full_size("sd15")
    averaged = {
        "model_ema.diffusion_model" + n.removeprefix(UNET).replace(".", ""): s
        for n, s in shapes.items()
        if n.startswith(UNET)
    }
    both = inspect(tmp_path, shapes | averaged | {"model_ema.decay": ()})
    assert (both.kind, both.missing, both.has_ema) == ("sd15", (), True)
    alone = inspect(tmp_path, without(shapes, UNET) | averaged)
    assert (alone.kind, alone.missing, alone.has_ema) == ("sd15", ("UNet",), True)


def test_refiner_is_no_base_model(tmp_path):
    shapes = {
        CONV_IN: (384, 4, 3, 3),
        UNET + "label_emb.0.0.weight": (1536, 2560),
        UNET + "input_blocks.9.0.op.weight": (1536, 1536, 3, 3),
        VAE + "quant_conv.weight": (8, 8, 1, 1),
        "conditioner.embedders.0.model.ln_final.weight": (1280,),
    }
    model = inspect(tmp_path, shapes)
    assert model.kind == "sdxl-refiner"
    with pytest.raises(UserError, match=r"this is an SDXL refiner.*Expected a complete SDXL model"):
        require_family(model, "sdxl")
    assert inspect(tmp_path, without(shapes, VAE, *TEXT)).made_for == "sdxl-refiner"


@each("family", tiny.FAMILIES)
def test_tiny_models_are_recognized_as_the_real_ones_are(tmp_path, family):
    path = tiny.write_single_file(tmp_path / "m.safetensors", name=family)
    model = inspect_table(read_table(path))
    assert (model.kind, model.missing) == (family, ())


@each(
    ("shapes", "kind"),
    [
        ({UNET + "joint_blocks.0.x": (1,)}, "sd3"),
        ({UNET + "double_blocks.0.x": (1,)}, "flux"),
        ({"double_blocks.0.x": (1,)}, "flux"),
        ({"down_blocks.0.resnets.0.conv1.weight": (1,)}, "unet"),
        ({CONV_IN: (8, 4, 3, 3), "cond_stage_model.model.ln_final.weight": (8,),
          UNET + "label_emb.0.0.weight": (1, 1)}, "unknown"),
        ({CONV_IN: (8, 4, 3, 3), "conditioner.embedders.1.model.ln_final.weight": (8,),
          "edm_mean": (4,)}, "unknown"),
        ({"conv_in.weight": (320, 4, 3, 3), "down_blocks.0.resnets.0.conv1.weight": (1,),
          "controlnet_mid_block.weight": (1,)}, "unknown"),
        ({"down_blocks.0.motion_modules.0.temporal_transformer.norm.weight": (1,)}, "unknown"),
        ({"control_model.input_blocks.0.0.weight": (320, 4, 3, 3)}, "unknown"),
        ({"decoder.layers.1.weight": (64, 4, 3, 3), "encoder.layers.0.weight": (1,)}, "unknown"),
        ({"encoder.block.0.layer.0.SelfAttention.q.weight": (1, 1)}, "unknown"),
        ({"something.else": (1,)}, "unknown"),
        ({"weight": (4,)}, "unknown"),
        ({}, "unknown"),
    ],
)  # fmt: skip
def test_kind_of_other_files_is_recognized(tmp_path, shapes, kind):
    assert inspect(tmp_path, shapes).kind == kind


@each(
    ("shapes", "family"),
    [
        ({"emb_params": (2, 768)}, "sd15"),
        ({"emb_params": (2, 1024)}, "sd2"),
        ({"emp_params": (2, 768), "emp_params_out": (2, 768)}, "sd15"),
        ({"clip_l": (2, 768), "clip_g": (2, 1280)}, "sdxl"),
        ({"clip_l": (2, 768)}, "sd15"),
        ({"clip_h": (2, 1024)}, "sd2"),
        ({"string_to_param.*": (3, 768)}, "sd15"),
        ({"<my-cat>": (3, 768)}, "sd15"),
        ({"<my-cat>": (1024,)}, "sd2"),
        ({"cat": (1, 1280)}, "sdxl"),
        ({"clip_l_out": (2, 768), "clip_g_out": (2, 1280)}, "sdxl"),
        ({"bundle_emb.cat.clip_l": (2, 768), "bundle_emb.cat.clip_g": (2, 1280)}, "sdxl"),
        ({"bundle_emb.v1.5 cat.string_to_param.*": (2, 1024)}, "sd2"),
        ({"bundle_emb.my.lora_x.emb_params": (2, 768)}, "sd15"),
        ({"bundle_emb.a.emb_params": (2, 768), "bundle_emb.b.emb_params": (2, 1024)}, None),
    ],
)
def test_embeddings_are_recognized_in_every_spelling(tmp_path, shapes, family):
    model = inspect(tmp_path, shapes)
    assert (model.kind, model.made_for) == ("embedding", family)


ATTENTION = "down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k"
ORIGINAL = "input_blocks.4.1.transformer_blocks.0.attn2.to_k"


@each("base", BASES)
@each(
    ("layer", "down", "up"),
    [
        ("lora_unet_" + ATTENTION.replace(".", "_"), "lora_down.weight", "lora_up.weight"),
        ("lora_unet_" + ORIGINAL.replace(".", "_"), "lora_down.weight", "lora_up.weight"),
        ("unet." + ATTENTION, "lora_A.weight", "lora_B.weight"),
        ("unet." + ATTENTION, "lora_A.default.weight", "lora_B.default.weight"),
        ("base_model.model.unet." + ATTENTION, "lora_A.weight", "lora_B.weight"),
        ("unet." + ATTENTION, "lora.down.weight", "lora.up.weight"),
        (
            f"unet.{ATTENTION.removesuffix('.to_k')}.processor.to_k_lora",
            "down.weight",
            "up.weight",
        ),
        ("diffusion_model." + ORIGINAL, "lora_A.weight", "lora_B.weight"),
        (ORIGINAL, "lora_A.weight", "lora_B.weight"),
        ("lycoris_" + ATTENTION.replace(".", "_"), "lora_down.weight", "lora_up.weight"),
        ("lora_unet_" + ATTENTION.replace(".", "_"), "hada_w1_b", "hada_w1_a"),
    ],
)
def test_loras_of_every_naming_are_recognized_with_their_family(tmp_path, base, layer, down, up):
    shapes = {f"{layer}.{down}": (4, CONTEXT[base]), f"{layer}.{up}": (320, 4)}
    model = inspect(tmp_path, shapes)
    assert (model.kind, model.made_for) == ("lora", base)


@each(
    ("shapes", "family"),
    [
        ({"lora_te_text_model_encoder_layers_0_mlp_fc1.lora_down.weight": (4, 768)}, "sd15"),
        ({"lora_te_text_model_encoder_layers_0_mlp_fc1.lora_down.weight": (4, 1024)}, "sd2"),
        ({"lora_te1_text_model_encoder_layers_0_mlp_fc1.lora_down.weight": (4, 768)}, None),
        ({"text_encoder_2.text_model.encoder.layers.0.mlp.fc1.lora_A.weight": (4, 1280)}, "sdxl"),
        ({"lora_unet_mid_block_attentions_0_transformer_blocks_9_ff.oft_blocks": (4, 2, 2)},
         "sdxl"),
        ({"lora_unet_x_attn2_to_k.lokr_w1": (4, 4), "lora_unet_x_attn2_to_k.lokr_w2_a": (4, 4)},
         None),
        ({"lora_unet_mid.lora_down.weight": (1,), "lora_unet_mid.alpha": ()}, None),
        ({"unet.mid.oft_R.weight": (4, 6)}, None),
    ],
)  # fmt: skip
def test_loras_are_recognized_by_any_of_their_layers(tmp_path, shapes, family):
    model = inspect(tmp_path, shapes)
    assert (model.kind, model.made_for) == ("lora", family)
