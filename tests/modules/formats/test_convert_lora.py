import hashlib
import json
import struct

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from modules.formats.convert_lora import convert_lora
from modules.formats.lora_base import base_of_lora, likely_base
from modules.formats.lora_names import Layer
from modules.formats.standard_names import standard_names
from onetrainer.errors import UserError

ATTN2 = {
    "sd15": "mid_block.attentions.0.transformer_blocks.0.attn2.to_k",
    "sd2": "mid_block.attentions.0.transformer_blocks.0.attn2.to_k",
    "sdxl": "mid_block.attentions.0.transformer_blocks.9.attn2.to_k",
}
WIDTH = {"sd15": 768, "sd2": 1024, "sdxl": 2048}
TEXT = "text_model.encoder.layers.0.self_attn.q_proj"


def pair(base: str, part: str, path: str, width: int, naming: str = "kohya") -> dict:
    name = standard_names(base).name(Layer(part, path), naming)
    generator = torch.Generator().manual_seed(width)
    down, up = ("lora_down", "lora_up") if naming == "kohya" else ("lora_A", "lora_B")
    return {
        f"{name}.{down}.weight": torch.randn(2, width, generator=generator),
        f"{name}.{up}.weight": torch.randn(64, 2, generator=generator),
        **({} if naming == "diffusers" else {f"{name}.alpha": torch.tensor(1.0)}),
    }


def convert(source, target, **wishes) -> list[str]:
    plain = {"naming": "kohya", "family": None, "precision": "keep", "overwrite": False}
    return convert_lora(source, target, **{**plain, **wishes})


def told(tensors, metadata=None):
    return base_of_lora({key: tensor.shape for key, tensor in tensors.items()}, metadata or {})


@pytest.mark.parametrize("naming", ["kohya", "diffusers", "comfyui"])
@pytest.mark.parametrize("base", ["sd15", "sd2", "sdxl"])
def test_base_is_told_from_the_width_of_cross_attention(base, naming):
    # The first block, whose name is the same in every base.
    tensors = pair(base, "unet", ATTN2[base].replace(".9.", ".0."), WIDTH[base], naming)
    assert told(tensors) == base


@pytest.mark.parametrize(
    ("key", "shape", "base"),
    [
        ("lora_te2_text_model_encoder_layers_0_mlp_fc1.lora_down.weight", (2, 1280), "sdxl"),
        ("text_encoder_2.text_model.encoder.layers.0.mlp.fc1.lora_A.weight", (2, 1280), "sdxl"),
        ("lora_unet_label_emb_0_0.lora_down.weight", (2, 2816), "sdxl"),
        ("lora_unet_output_blocks_1_1_proj_in.lora_down.weight", (2, 1280), "sdxl"),
        ("unet.mid_block.attentions.0.transformer_blocks.9.ff.net.2.lora_A.weight", (2, 2), "sdxl"),
        ("lora_te_text_model_encoder_layers_22_mlp_fc1.alpha", (), "sd2"),
        ("lora_te_text_model_encoder_layers_0_mlp_fc1.lora_down.weight", (2, 1024), "sd2"),
        ("text_encoders.clip_h.transformer.text_model.encoder.layers.0.mlp.fc2.alpha", (), "sd2"),
        ("lora_unet_mid_block_attentions_0_proj_in.lora_down.weight", (2, 1280), None),
        ("lora_te_text_model_encoder_layers_0_mlp_fc1.lora_down.weight", (2, 768), None),
    ],
)
def test_base_is_told_from_what_only_one_base_has(key, shape, base):
    assert told({key: torch.empty(shape)}) == base


def test_lokr_tells_the_width_by_its_product():
    name = f"lora_unet_{ATTN2['sd15'].replace('.', '_')}"
    kron = {f"{name}.lokr_w1": torch.empty(4, 8), f"{name}.lokr_w2_b": torch.empty(2, 128)}
    assert told(kron) == "sd2"


def test_metadata_is_asked_where_keys_do_not_tell_and_only_there():
    silent = {"lora_unet_mid_block_attentions_0_proj_in.lora_down.weight": torch.empty(2, 1280)}
    assert told(silent, {"ss_base_model_version": "sd_v2_v"}) == "sd2"
    assert told(silent, {"modelspec.architecture": "stable-diffusion-v1/lora"}) == "sd15"
    assert told(silent, {"ss_v2": "True"}) == "sd2"
    assert (
        told(pair("sd15", "unet", ATTN2["sd15"], 768), {"ss_base_model_version": "sdxl_"}) == "sd15"
    )
    assert likely_base(silent) == "sd15"
    assert likely_base({"lora_te1_text_model_encoder_layers_0_mlp_fc1.alpha": 0}) == "sdxl"
    assert likely_base({"model.weight": 0}) is None


@pytest.mark.parametrize("base", ["sd15", "sd2", "sdxl"])
def test_every_naming_is_converted_into_every_other(tmp_path, base):
    parts = {"sd15": ("te",), "sd2": ("te",), "sdxl": ("te1", "te2")}[base]
    tensors = pair(base, "unet", ATTN2[base], WIDTH[base])
    for part in parts:
        tensors |= pair(base, part, TEXT, 768)
    source = tmp_path / "kohya.safetensors"
    save_file(tensors, source)
    for naming in ("comfyui", "kohya", "diffusers", "comfyui", "diffusers", "kohya"):
        target = tmp_path / f"{naming}-next.safetensors"
        assert convert(source, target, naming=naming, overwrite=True) == []
        source = target
    end = load_file(source)
    expected = {key: tensor for key, tensor in tensors.items() if not key.endswith("alpha")}
    expected = {k: t * 0.5 if k.endswith("up.weight") else t for k, t in expected.items()}
    assert end.keys() == expected.keys()
    assert all(torch.equal(end[key], tensor) for key, tensor in expected.items())


def test_old_sdxl_files_with_diffusers_paths_get_the_usual_names(tmp_path):
    usual = pair("sdxl", "unet", ATTN2["sdxl"], 2048)
    name = f"lora_unet_{ATTN2['sdxl'].replace('.', '_')}"
    old = {f"{name}.{key.partition('.')[2]}": tensor for key, tensor in usual.items()}
    assert old.keys() != usual.keys()
    save_file(old, tmp_path / "old.safetensors")
    convert(tmp_path / "old.safetensors", tmp_path / "new.safetensors")
    assert load_file(tmp_path / "new.safetensors").keys() == usual.keys()


def test_precision_metadata_and_embeddings(tmp_path):
    tensors = pair("sd15", "unet", ATTN2["sd15"], 768)
    tensors["bundle_emb.cat.clip_l"] = torch.randn(2, 768)
    metadata = {"ss_seed": "3", "title": "x", "sshs_model_hash": "of the old file"}
    save_file(tensors, tmp_path / "in.safetensors", metadata)
    target = tmp_path / "out.safetensors"
    convert(tmp_path / "in.safetensors", target, precision="bf16", naming="comfyui")
    written = load_file(target)
    kinds = {key.rpartition(".")[2]: str(tensor.dtype) for key, tensor in written.items()}
    assert kinds == {
        "alpha": "torch.float32", "weight": "torch.bfloat16", "clip_l": "torch.bfloat16"
    }  # fmt: skip
    data = target.read_bytes()
    (header,) = struct.unpack("<Q", data[:8])
    digest = hashlib.sha256(data[8 + header :]).hexdigest()
    with safe_open(target, framework="pt") as file:
        told = file.metadata()
    assert (told["ss_seed"], told["title"]) == ("3", "x")
    assert told["sshs_model_hash"] == digest
    assert told["modelspec.hash_sha256"] == f"0x{digest}"
    assert json.loads(data[8 : 8 + header])["__metadata__"] == told


def test_pickles_go_in(tmp_path):
    tensors = pair("sd15", "unet", ATTN2["sd15"], 768)
    torch.save(tensors, tmp_path / "in.pt")
    convert(tmp_path / "in.pt", tmp_path / "out.safetensors")
    written = load_file(tmp_path / "out.safetensors")
    assert all(torch.equal(written[key], tensor) for key, tensor in tensors.items())


def test_a_wrong_family_is_refused_with_the_right_one_named(tmp_path):
    save_file(pair("sdxl", "unet", ATTN2["sdxl"], 2048), tmp_path / "in.safetensors")
    with pytest.raises(UserError, match=r'is for sdxl, not for sd15.*Choose "sdxl"'):
        convert(tmp_path / "in.safetensors", tmp_path / "out.safetensors", family="sd15-inpainting")


def test_unknown_tensors_are_kept_and_told(tmp_path):
    strange = "lora_te_text_model_encoder_layers_0_self_attn.lora_down.weight"
    tensors = pair("sd15", "unet", ATTN2["sd15"], 768) | {strange: torch.ones(2, 3)}
    save_file(tensors, tmp_path / "in.safetensors")
    notes = convert(tmp_path / "in.safetensors", tmp_path / "out.safetensors", naming="comfyui")
    assert len(notes) == 1
    assert strange in notes[0]
    assert strange in load_file(tmp_path / "out.safetensors")


def test_a_guess_is_told(tmp_path):
    path = "mid_block.attentions.0.proj_in"
    save_file(pair("sd15", "unet", path, 1280), tmp_path / "in.safetensors")
    (note,) = convert(tmp_path / "in.safetensors", tmp_path / "out.safetensors")
    assert "taken for sd15" in note


def test_an_existing_file_is_left_alone_and_no_lora_is_refused(tmp_path):
    save_file(pair("sd15", "unet", ATTN2["sd15"], 768), tmp_path / "in.safetensors")
    (tmp_path / "out.safetensors").write_bytes(b"old")
    with pytest.raises(UserError, match="exists already"):
        convert(tmp_path / "in.safetensors", tmp_path / "out.safetensors")
    assert (tmp_path / "out.safetensors").read_bytes() == b"old"
    save_file({"unet.conv_in.weight": torch.ones(1)}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="no adapter in it"):
        convert(tmp_path / "model.safetensors", tmp_path / "new.safetensors")
