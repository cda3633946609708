import hashlib
import json
import struct

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from modules.formats.embeddings.embedding_file import (
    Embedding,
    read_embeddings_by_token,
    write_embedding,
)
from modules.formats.lora.convert_lora import convert_lora
from modules.formats.lora.lora_names import Layer
from modules.formats.lora.standard_names import standard_names
from onetrainer.errors import UserError
from tests.each import each

ATTN2 = {
    "sd15": "mid_block.attentions.0.transformer_blocks.0.attn2.to_k",
    "sd2": "mid_block.attentions.0.transformer_blocks.0.attn2.to_k",
    "sdxl": "mid_block.attentions.0.transformer_blocks.9.attn2.to_k",
}
WIDTH = {"sd15": 768, "sd2": 1024, "sdxl": 2048}
TE_WIDTH = {"sd15": 768, "sd2": 1024, "sdxl": 768}
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


@each("base", ["sd15", "sd2", "sdxl"])
def test_every_naming_is_converted_into_every_other(tmp_path, base):
    components = {"sd15": ("te",), "sd2": ("te",), "sdxl": ("te1", "te2")}[base]
    tensors = pair(base, "unet", ATTN2[base], WIDTH[base])
    for part in components:
        tensors |= pair(base, part, TEXT, TE_WIDTH[base])
    source = tmp_path / "kohya.safetensors"
    save_file(tensors, source)
    for naming in ("comfyui", "kohya", "diffusers", "comfyui", "diffusers", "kohya"):
        target = tmp_path / f"{naming}-next.safetensors"
        assert len(convert(source, target, naming=naming, overwrite=True)) == 1
        source = target
    end = load_file(source)
    expected = {key: tensor for key, tensor in tensors.items() if not key.endswith("alpha")}
    expected = {k: t * 0.5 if k.endswith("up.weight") else t for k, t in expected.items()}
    assert end.keys() == expected.keys()
    assert all(torch.equal(end[key], tensor) for key, tensor in expected.items())


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
        written = file.metadata()
    assert (written["ss_seed"], written["title"]) == ("3", "x")
    assert written["sshs_model_hash"] == digest
    assert written["modelspec.hash_sha256"] == f"0x{digest}"
    assert json.loads(data[8 : 8 + header])["__metadata__"] == written


def test_one_line_reports_what_was_written(tmp_path):
    layers = [f"mid_block.attentions.0.transformer_blocks.0.attn1.to_{n}" for n in "qkv"]
    tensors = {k: t for path in layers for k, t in pair("sd15", "unet", path, 1280).items()}
    tensors |= pair("sd15", "unet", ATTN2["sd15"], 768)
    save_file(tensors, tmp_path / "in.safetensors")
    written = {}
    for naming in ("kohya", "diffusers", "comfyui"):
        target = tmp_path / f"{naming}.safetensors"
        (written[naming],) = convert(
            tmp_path / "in.safetensors", target, naming=naming, precision="fp16"
        )
    size = f"{(tmp_path / 'diffusers.safetensors').stat().st_size / 1000:.3g} kB"
    assert written["diffusers"] == (
        f"kohya -> diffusers, fp16, {size}, 4 layers; alpha / rank is multiplied into the weights,"
        " as this naming has no alpha"
    )
    assert written["comfyui"].startswith("kohya -> comfyui, fp16, ")
    assert written["comfyui"].endswith(" kB, 4 layers")
    assert written["kohya"].startswith("kohya, fp16, ")


def test_a_wrong_family_is_refused_with_the_right_one_named(tmp_path):
    save_file(pair("sdxl", "unet", ATTN2["sdxl"], 2048), tmp_path / "in.safetensors")
    with pytest.raises(UserError, match=r'is for SDXL, not for SD 1.5.*Choose "sdxl"'):
        convert(tmp_path / "in.safetensors", tmp_path / "out.safetensors", family="sd15-inpainting")


def test_unknown_tensors_are_kept_and_reported(tmp_path):
    strange = "lora_te_text_model_encoder_layers_0_self_attn.lora_down.weight"
    tensors = pair("sd15", "unet", ATTN2["sd15"], 768) | {strange: torch.ones(2, 3)}
    save_file(tensors, tmp_path / "in.safetensors")
    notes = convert(tmp_path / "in.safetensors", tmp_path / "out.safetensors", naming="comfyui")
    assert notes[1:] == [
        f"1 tensor belongs to no layer of SD 1.5 and is kept under its name: {strange}"
    ]
    assert strange in load_file(tmp_path / "out.safetensors")


SILENT = "mid_block.attentions.0.proj_in"


def test_a_file_without_a_known_family_needs_it_named(tmp_path):
    source, target = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    save_file(pair("sd15", "unet", SILENT, 1280), source)
    with pytest.raises(UserError, match=r"Choose it: --family, one of sd15, sd2, sdxl"):
        convert(source, target)
    assert not target.exists()
    assert len(convert(source, target, family="sd2")) == 1
    assert load_file(target).keys() == pair("sd2", "unet", SILENT, 1280).keys()


def test_the_first_text_encoder_of_sdxl_alone_is_no_sd15(tmp_path):
    source, target = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    for naming in ("diffusers", "comfyui"):
        save_file(pair("sdxl", "te1", TEXT, 768, naming), source)
        with pytest.raises(UserError, match="--family"):
            convert(source, target)
    assert len(convert(source, target, family="sdxl")) == 1
    assert load_file(target).keys() == pair("sdxl", "te1", TEXT, 768).keys()


FLUX = [
    "transformer.transformer_blocks.1.attn.to_q",
    "lora_unet_double_blocks_1_img_attn_qkv",
    "diffusion_model.double_blocks.1.img_attn.qkv",
]


@each("family", [None, "sd15", "sdxl"])
@each("layer", FLUX)
@each("with_text", [False, True])  # which is SD 1.x's and SDXL's as well
def test_loras_of_other_models_are_refused(tmp_path, layer, family, with_text):
    tensors = {
        f"{layer}.lora_A.weight": torch.ones(2, 8),
        f"{layer}.lora_B.weight": torch.ones(8, 2),
    }
    if with_text:
        tensors |= pair("sdxl", "te1", TEXT, 768)
    save_file(tensors, tmp_path / "in.safetensors")
    with pytest.raises(UserError) as refusal:
        convert(tmp_path / "in.safetensors", tmp_path / "out.safetensors", family=family)
    words = "another model family, such as Flux"
    assert words in str(refusal.value) or (with_text and "--family" in str(refusal.value))
    assert not (tmp_path / "out.safetensors").exists()


def test_a_lora_that_says_it_is_flux_is_refused_as_that(tmp_path):
    tensors = {f"{FLUX[0]}.lora_A.weight": torch.ones(2, 8)}
    metadata = {"modelspec.architecture": "flux-1-dev/lora"}
    save_file(tensors, tmp_path / "in.safetensors", metadata)
    with pytest.raises(UserError, match="this is a LoRA for Flux"):
        convert(tmp_path / "in.safetensors", tmp_path / "out.safetensors")


def bundled(tmp_path, *, base="sd15", **embeddings):
    """A LoRA and files of embeddings as one file; its path."""
    save_file(pair(base, "unet", ATTN2[base], WIDTH[base]), tmp_path / "lora.safetensors")
    files = []
    for word, vectors in embeddings.items():
        files.append(str(tmp_path / f"{word}.safetensors"))
        write_embedding(tmp_path / f"{word}.safetensors", Embedding("other", vectors))
    target = tmp_path / "bundle.safetensors"
    notes = convert(tmp_path / "lora.safetensors", target, bundle=files)
    assert notes[1:] == [f'Bundled "{word}", an embedding of 2 vectors.' for word in embeddings]
    return target


CAT, DOG = {"te": torch.randn(2, 768)}, {"te": torch.randn(2, 768)}


def test_a_bundle_can_be_added_to_and_goes_through_every_naming(tmp_path):
    path = bundled(tmp_path, cat=CAT)
    write_embedding(tmp_path / "dog.safetensors", Embedding("", DOG))
    for place, naming in enumerate(("comfyui", "diffusers", "kohya")):
        target = tmp_path / f"{place}.safetensors"
        more = [str(tmp_path / "dog.safetensors")] if naming == "diffusers" else []
        convert(path, target, naming=naming, bundle=more)
        path = target
    assert read_embeddings_by_token(path).keys() == {"cat", "dog"}


def test_a_token_that_is_taken_or_for_another_family_is_refused(tmp_path):
    path, target = bundled(tmp_path, cat=CAT), tmp_path / "new.safetensors"
    with pytest.raises(UserError, match='already uses the token "cat"'):
        convert(path, target, bundle=[str(tmp_path / "cat.safetensors")])
    write_embedding(tmp_path / "dog.safetensors", Embedding("", {"te": torch.ones(1, 1024)}))
    with pytest.raises(UserError, match="this embedding is for SD 2"):
        convert(path, target, bundle=[str(tmp_path / "dog.safetensors")])
    with pytest.raises(UserError, match="this file is to be bundled"):
        convert(path, tmp_path / "dog.safetensors", bundle=[str(tmp_path / "dog.safetensors")])
    assert not target.exists()


def metadata_of(path) -> dict[str, str]:
    with safe_open(path, framework="pt") as file:
        return file.metadata()


def test_metadata_reports_what_is_written_and_not_what_was_read(tmp_path):
    said = {
        "modelspec.implementation": "diffusers", "ss_network_dim": "2", "ss_network_alpha": "1.0",
        "ss_network_args": '{"conv_dim": "2", "conv_alpha": "1.0", "algo": "lora"}',
    }  # fmt: skip
    source = tmp_path / "in.safetensors"
    save_file(pair("sd15", "unet", ATTN2["sd15"], 768), source, said)
    written = {}
    for naming in ("kohya", "comfyui", "diffusers"):
        convert(source, tmp_path / f"{naming}.safetensors", naming=naming)
        written[naming] = metadata_of(tmp_path / f"{naming}.safetensors")
    code = {naming: fields["modelspec.implementation"] for naming, fields in written.items()}
    assert code == {"kohya": "diffusers", "comfyui": "sgm", "diffusers": "diffusers"}
    assert written["comfyui"]["ss_network_alpha"] == written["kohya"]["ss_network_alpha"] == "1.0"
    # There is no alpha, which means the rank.
    assert written["diffusers"]["ss_network_alpha"] == "2"
    arguments = json.loads(written["diffusers"]["ss_network_args"])
    assert arguments == {"conv_dim": "2", "conv_alpha": "2", "algo": "lora"}


def test_an_existing_file_is_left_alone_and_no_lora_is_refused(tmp_path):
    save_file(pair("sd15", "unet", ATTN2["sd15"], 768), tmp_path / "in.safetensors")
    (tmp_path / "out.safetensors").write_bytes(b"old")
    with pytest.raises(UserError, match="already exists"):
        convert(tmp_path / "in.safetensors", tmp_path / "out.safetensors")
    assert (tmp_path / "out.safetensors").read_bytes() == b"old"
    save_file({"unet.conv_in.weight": torch.ones(1)}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="contains no adapter"):
        convert(tmp_path / "model.safetensors", tmp_path / "new.safetensors")


def test_wrong_chosen_family_is_reported_as_wrong(tmp_path):
    name = "lora_unet_down_blocks_0_attentions_0_proj_in"
    tensors = {f"{name}.lora_down.weight": torch.ones(2, 320, 1, 1)}
    tensors[f"{name}.lora_up.weight"] = torch.ones(320, 2, 1, 1)
    save_file(tensors, tmp_path / "lora.safetensors")
    with pytest.raises(UserError, match="has no layers of SDXL") as caught:
        convert(tmp_path / "lora.safetensors", tmp_path / "out.safetensors", family="sdxl")
    assert "another --family" in caught.value.remedy


def test_lora_in_fp8_keeps_its_numbers(tmp_path):
    tensors = {
        key: tensor.to(torch.float8_e4m3fn) if "weight" in key else tensor
        for key, tensor in pair("sd15", "unet", ATTN2["sd15"], WIDTH["sd15"]).items()
    }
    save_file(tensors, tmp_path / "fp8.safetensors")
    convert(tmp_path / "fp8.safetensors", tmp_path / "out.safetensors")
    got = load_file(tmp_path / "out.safetensors")
    assert all(torch.equal(got[k].float(), t.float()) for k, t in tensors.items())


def test_lora_that_is_no_number_is_reported_as_broken(tmp_path):
    tensors = pair("sd15", "unet", ATTN2["sd15"], WIDTH["sd15"])
    next(iter(tensors.values()))[0, 0] = float("nan")
    save_file(tensors, tmp_path / "nan.safetensors")
    with pytest.raises(UserError, match="NaN or infinity") as caught:
        convert(tmp_path / "nan.safetensors", tmp_path / "out.safetensors")
    assert "diverged" in caught.value.remedy


def test_odd_arguments_in_metadata_are_kept_as_they_are(tmp_path):
    said = {"ss_network_args": "[" * 100_000, "ss_network_dim": "2", "ss_network_alpha": "1"}
    save_file(pair("sd15", "unet", ATTN2["sd15"], 768), tmp_path / "odd.safetensors", said)
    target = tmp_path / "out.safetensors"
    convert(tmp_path / "odd.safetensors", target, naming="diffusers")
    with safe_open(target, "pt") as file:
        assert file.metadata()["ss_network_args"] == said["ss_network_args"]
