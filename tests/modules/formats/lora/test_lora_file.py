import json

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

from modules.formats.lora.lora_file import LoraFile, read_lora, write_lora
from modules.formats.lora.lora_keys import scale_of
from modules.formats.lora.lora_names import Layer, LayerNames
from modules.methods.adapters.weight_formulas import low_rank_change
from onetrainer.errors import UserError
from tests.close import close, near
from tests.each import each

TO_Q = "mid_block.attentions.0.transformer_blocks.0.attn1.to_q"
TO_OUT = "mid_block.attentions.0.transformer_blocks.0.attn1.to_out.0"
Q_PROJ = "text_model.encoder.layers.0.self_attn.q_proj"
OUT_PROJ = "text_model.encoder.layers.0.self_attn.out_proj"
NAMES = LayerNames.of(
    "sd15",
    {
        "unet": [f"{path}.weight" for path in (TO_Q, TO_OUT, "conv_in")],
        "te": [f"{path}.weight" for path in (Q_PROJ, OUT_PROJ)],
    },
)
DOWN, UP = torch.arange(6.0).view(2, 3), torch.arange(8.0).view(4, 2)


def read(tmp_path, tensors, metadata=None) -> LoraFile:
    path = tmp_path / "lora.safetensors"
    save_file(tensors, path, metadata)
    return read_lora(path, NAMES)


HEAD, Q_HEAD = TO_Q.removesuffix(".to_q"), Q_PROJ.removesuffix(".q_proj")
NEW, OLD, KOHYA = ("lora_A", "lora_B"), ("down", "up"), ("lora_down", "lora_up")
# Names of both matrices, with a place for what differs, and the layer.
SPELLINGS = [
    (f"unet.{TO_Q}.{{}}.weight", NEW, ("unet", TO_Q)),
    (f"unet.{TO_Q}.{{}}.default.weight", NEW, ("unet", TO_Q)),
    (f"unet.{TO_Q}.{{}}.default_0.weight", NEW, ("unet", TO_Q)),
    (f"base_model.model.{TO_Q}.{{}}.weight", NEW, ("unet", TO_Q)),
    (f"unet.{TO_Q}.lora.{{}}.weight", OLD, ("unet", TO_Q)),
    (f"unet.{HEAD}.processor.to_q_lora.{{}}.weight", OLD, ("unet", TO_Q)),
    (f"{HEAD}.processor.to_out_lora.{{}}.weight", OLD, ("unet", TO_OUT)),
    (f"text_encoder.{Q_HEAD}.to_out_lora.{{}}.weight", OLD, ("te", OUT_PROJ)),
    (f"text_encoder.{Q_PROJ}.lora_linear_layer.{{}}.weight", OLD, ("te", Q_PROJ)),
    (f"lora_unet_{TO_Q.replace('.', '_')}.{{}}.weight", KOHYA, ("unet", TO_Q)),
]


@each(("name", "words", "layer"), SPELLINGS)
def test_every_spelling_of_down_and_up_is_read(tmp_path, name, words, layer):
    file = read(tmp_path, {name.format(words[0]): DOWN, name.format(words[1]): UP})
    kinds = file.layers[Layer(*layer)]
    assert file.unknown == {}
    assert torch.equal(kinds["lora_down.weight"], DOWN)
    assert torch.equal(kinds["lora_up.weight"], UP)
    assert scale_of(kinds) == 1  # no alpha means the rank


def test_whole_alphas_are_read_and_written_as_float32(tmp_path):
    name = NAMES.name(Layer("unet", TO_Q), "kohya")
    tensors = {f"{name}.lora_down.weight": DOWN, f"{name}.lora_up.weight": UP}
    file = read(tmp_path, {**tensors, f"{name}.alpha": torch.tensor(1)})
    assert scale_of(file.layers[Layer("unet", TO_Q)]) == 0.5
    for naming in ("kohya", "comfyui"):
        path = tmp_path / f"{naming}.safetensors"
        write_lora(path, file, NAMES, naming=naming, dtype=torch.float16)
        written = load_file(path)
        alpha = written[f"{NAMES.name(Layer('unet', TO_Q), naming)}.alpha"]
        assert (alpha.dtype, float(alpha)) == (torch.float32, 1)
        assert sum(tensor.dtype == torch.float16 for tensor in written.values()) == 2


def test_alpha_is_multiplied_into_diffusers_files_before_they_are_rounded(tmp_path):
    up = torch.full((4, 2), 1 + 2**-10)  # a number of float16 whose third is none
    kinds = {"lora_down.weight": DOWN, "lora_up.weight": up, "alpha": torch.tensor(2 / 3)}
    file = LoraFile({Layer("unet", TO_Q): kinds}, {}, {}, {}, "kohya")
    path = tmp_path / "lora.safetensors"
    write_lora(path, file, NAMES, naming="diffusers", dtype=torch.float16)
    written = load_file(path)
    assert sorted(written) == [f"unet.{TO_Q}.lora_A.weight", f"unet.{TO_Q}.lora_B.weight"]
    assert torch.equal(written[f"unet.{TO_Q}.lora_B.weight"], (up / 3).half())


@each(
    ("settings", "scale"),
    [
        ({"unet.r": 2, "unet.lora_alpha": 6}, 3.0),
        ({"unet.r": 2, "unet.lora_alpha": 6, "unet.alpha_pattern": {"attn1.to_q": 1}}, 0.5),
        ({"unet.r": 2, "unet.lora_alpha": 6, "unet.alpha_pattern": {"ttn1.to_q": 1}}, 3.0),
        ({"unet.lora_alpha": 6, "unet.use_rslora": True}, 6 / 2**0.5),
        ({"text_encoder.lora_alpha": 6}, 1.0),
    ],
)
def test_alphas_of_pefts_settings_are_read_and_not_written_again(tmp_path, settings, scale):
    tensors = {f"unet.{TO_Q}.lora_A.weight": DOWN, f"unet.{TO_Q}.lora_B.weight": UP}
    file = read(tmp_path, tensors, {"lora_adapter_metadata": json.dumps(settings), "title": "x"})
    assert scale_of(file.layers[Layer("unet", TO_Q)]) == near(scale)
    path = tmp_path / "again.safetensors"
    write_lora(path, file, NAMES, naming="diffusers", dtype=None)
    assert read_lora(path, NAMES).metadata == {"title": "x"}
    close(load_file(path)[f"unet.{TO_Q}.lora_B.weight"], UP * scale)


def test_a_folder_that_peft_has_written_has_pefts_strength(tmp_path):
    """Against the weights that peft merges, to 1e-6; its alpha is in the file beside."""
    attention = torch.nn.Module()
    attention.to_q = torch.nn.Linear(3, 4)
    before = attention.to_q.weight.detach().clone()
    settings = LoraConfig(r=2, lora_alpha=6, target_modules=["to_q"], init_lora_weights=False)
    model = get_peft_model(attention, settings)
    model.save_pretrained(tmp_path)
    written = tmp_path / "adapter_model.safetensors"
    names = LayerNames("sd15", NAMES.names, {"to_q": Layer("unet", TO_Q)})
    (tensors,) = read_lora(written, names).layers.values()
    after = model.merge_and_unload().to_q.weight.detach()
    close(before + low_rank_change(tensors), after)


def test_projections_become_what_diffusers_models_have_there(tmp_path):
    # A 1x1 convolution in SD 1.x, a linear layer in SD 2.x and SDXL; files have either.
    path, proj = tmp_path / "lora.safetensors", "mid_block.attentions.0.proj_in"
    square = {"lora_down.weight": torch.ones(2, 3, 1, 1), "lora_up.weight": torch.ones(4, 2, 1, 1)}
    for base, shapes in (("sd15", [(2, 3, 1, 1), (4, 2, 1, 1)]), ("sd2", [(2, 3), (4, 2)])):
        names = LayerNames.of(base, {"unet": [f"{proj}.weight"]})
        for kinds in (square, {kind: tensor.flatten(1) for kind, tensor in square.items()}):
            file = LoraFile({Layer("unet", proj): kinds}, {}, {}, {}, "kohya")
            write_lora(path, file, names, naming="diffusers", dtype=None)
            assert [tuple(tensor.shape) for _, tensor in sorted(load_file(path).items())] == shapes


def test_comfyui_keeps_a_middle_matrix_under_the_names_that_it_reads_one_by(tmp_path):
    kinds = {
        "lora_down.weight": torch.ones(2, 4, 1, 1),
        "lora_mid.weight": torch.ones(2, 2, 3, 3),
        "lora_up.weight": torch.ones(8, 2, 1, 1),
    }
    file = LoraFile({Layer("unet", "conv_in"): kinds}, {}, {}, {}, "kohya")
    path = tmp_path / "lora.safetensors"
    write_lora(path, file, NAMES, naming="comfyui", dtype=None)
    assert sorted(load_file(path)) == [f"diffusion_model.input_blocks.0.0.{kind}" for kind in kinds]


def test_bundled_embeddings_and_unknown_tensors_come_through(tmp_path):
    name = NAMES.name(Layer("unet", TO_Q), "kohya")
    tensors = {
        f"{name}.lora_down.weight": DOWN,
        f"{name}.lora_up.weight": UP,
        "bundle_emb.my-cat.clip_l": torch.ones(2, 3),
        "bundle_emb.my-cat.clip_l_out": torch.zeros(2, 3),
        "lora_unet_nowhere.lora_up.weight": torch.ones(1),
        "logit_scale": torch.ones(1),
    }
    file = read(tmp_path, tensors)
    assert file.embeddings.keys() == {"my-cat"}
    assert file.embeddings["my-cat"].keys() == {"clip_l", "clip_l_out"}
    assert file.unknown.keys() == {"lora_unet_nowhere.lora_up.weight", "logit_scale"}
    path = tmp_path / "again.safetensors"
    write_lora(path, file, NAMES, naming="kohya", dtype=None)
    again = load_file(path)
    assert again.keys() == tensors.keys()
    assert all(torch.equal(again[key], tensor) for key, tensor in tensors.items())


def test_pickled_files_are_read_without_running_them(tmp_path):
    name = NAMES.name(Layer("unet", TO_Q), "kohya")
    path = tmp_path / "lora.pt"
    torch.save({f"{name}.lora_down.weight": DOWN, f"{name}.lora_up.weight": UP}, path)
    assert torch.equal(read_lora(path, NAMES).layers[Layer("unet", TO_Q)]["lora_up.weight"], UP)


@pytest.mark.parametrize("tensors", [{f"unet.{TO_Q}.weight": DOWN}, {"emb_params": DOWN}])
def test_files_without_an_adapter_are_refused(tmp_path, tensors):
    with pytest.raises(UserError, match="contains no adapter"):
        read(tmp_path, tensors)


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_files_that_hold_no_numbers_are_refused_with_the_tensor(tmp_path, value):
    name = NAMES.name(Layer("unet", TO_Q), "kohya")
    up = UP.clone()
    up[1, 1] = value
    tensors = {f"{name}.lora_down.weight": DOWN, f"{name}.lora_up.weight": up}
    with pytest.raises(UserError, match=f"contains NaN or infinity: {name}.lora_up.weight"):
        read(tmp_path, tensors)
