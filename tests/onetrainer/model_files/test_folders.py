"""Diffusers folders: recognized by their configs, and complete or refused with a message."""

import functools
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from modules.formats.files.tensor_source import open_tensors
from onetrainer.errors import UserError
from onetrainer.model_files.choices import require_family
from onetrainer.model_files.folders import weight_files
from onetrainer.model_files.inspection import inspect_model
from onetrainer.tensor_files.table import read_table
from tests import headers, tiny
from tests.each import each

WEIGHTS = "diffusion_pytorch_model.safetensors"


def change(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """The tiny folder of a family, written once; only its copies may be changed."""
    folder = tmp_path_factory.mktemp("folders")
    return functools.cache(lambda name: tiny.write_folder(folder / name, name=name))


@pytest.fixture
def folder(tmp_path, original):
    return shutil.copytree(original("sd15"), tmp_path / "model")


@pytest.fixture
def xl(tmp_path, original):
    return shutil.copytree(original("sdxl"), tmp_path / "xl")


@each("family", tiny.FAMILIES)
def test_folders_of_every_family_are_recognized(original, family):
    model = inspect_model(original(family))
    assert (model.kind, model.layout, model.missing) == (family, "folder", ())
    assert model.unet_channels == (9 if family.endswith("inpainting") else 4)
    assert (model.precision, model.has_ema) == ("fp32", False)
    require_family(model, family)


@each(
    ("pipeline", "kind"),
    [("StableDiffusion3Pipeline", "sd3"), ("FluxPipeline", "flux"),
     ("KandinskyPipeline", "unknown"), ("StableDiffusionImg2ImgPipeline", "sd15")],
)  # fmt: skip
def test_kind_is_read_from_the_pipeline_class(folder, pipeline, kind):
    change(folder / "model_index.json", _class_name=pipeline)
    assert inspect_model(folder).kind == kind


def test_folder_of_the_refiner_is_recognized_by_its_missing_first_encoder(xl):
    change(xl / "model_index.json", text_encoder=[None, None], tokenizer=[None, None])
    shutil.rmtree(xl / "text_encoder")
    assert inspect_model(xl).kind == "sdxl-refiner"


@each("channels", [5, 7, 8])
def test_unet_that_reads_something_else_is_recognized(tmp_path, original, folder, channels):
    change(folder / "unet" / "config.json", in_channels=channels)
    assert inspect_model(folder).kind == "unknown"
    sd2 = shutil.copytree(original("sd2"), tmp_path / "sd2")
    change(sd2 / "unet" / "config.json", in_channels=channels)
    assert inspect_model(sd2).kind == ("sd2-depth" if channels == 5 else "unknown")


def test_parts_that_are_left_out_are_missing(folder, xl):
    shutil.rmtree(folder / "vae")
    assert inspect_model(folder).missing == ("VAE",)
    require_family(inspect_model(folder), "sd15", has_custom_vae=True)
    change(xl / "model_index.json", text_encoder_2=[None, None])
    assert inspect_model(xl).missing == ("second text encoder",)


def test_family_comes_from_the_unet_where_a_text_encoder_is_left_out(tmp_path, original):
    for family in ("sd15", "sd2"):
        path = shutil.copytree(original(family), tmp_path / family)
        shutil.rmtree(path / "text_encoder")
        model = inspect_model(path)
        assert (model.kind, model.missing) == (family, ("text encoder",))


@each(
    ("part", "kind"), [("vae", "vae"), ("unet", "unet"), ("text_encoder", "text-encoder"),
                       ("text_encoder_2", "text-encoder")],
)  # fmt: skip
def test_component_folder_alone_is_recognized(xl, part, kind):
    model = inspect_model(xl / part)
    assert (model.kind, model.layout) == (kind, "folder")


@pytest.mark.parametrize(
    "name",
    ["unet/config.json", f"unet/{WEIGHTS}", f"vae/{WEIGHTS}", "text_encoder/model.safetensors",
     "text_encoder_2/model.safetensors", "text_encoder_2/config.json", "tokenizer/merges.txt"],
)  # fmt: skip
def test_folder_with_a_file_missing_names_its_part(xl, name):
    (xl / "tokenizer" / "tokenizer.json").unlink(missing_ok=True)
    (xl / name).unlink()
    with pytest.raises(UserError, match=rf"{name.split('/')[0]}\b.*download it again"):
        inspect_model(xl)


def test_folder_with_a_truncated_part_is_refused(folder):
    weights = folder / "vae" / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(UserError, match="cut short"):
        inspect_model(folder)


def pickled(weights, name=None):
    """The same tensors as a pickle; transformers has another name for those."""
    stem = weights.stem.replace("model", "pytorch_model") if weights.stem == "model" else None
    path = weights.with_name(name or f"{stem or weights.stem}.bin")
    torch.save(load_file(weights), path)
    weights.unlink()
    return path


def test_folder_with_pickled_weights_is_as_good_as_one_with_safetensors(xl):
    parts = ("unet", "vae", "text_encoder", "text_encoder_2")
    files = [file for part in parts for file in (xl / part).glob("*.safetensors")]
    tables = [read_table(file) for file in files]
    found = inspect_model(xl)
    made = [pickled(file) for file in files]
    assert [path.name for path in made][1:] == [
        "diffusion_pytorch_model.bin", "pytorch_model.bin", "pytorch_model.bin"
    ]  # fmt: skip
    assert inspect_model(xl) == found
    for table, path in zip(tables, made, strict=True):
        stem = "model" if path.parent.name.startswith("text") else "diffusion_pytorch_model"
        assert weight_files(path.parent, stem) == [path]
        with open_tensors(path) as reader:
            assert reader.names == sorted(table.entries)


def test_safetensors_are_taken_before_pickles(folder):
    weights = folder / "text_encoder" / "model.safetensors"
    (weights.parent / "pytorch_model.bin").write_bytes(b"never looked into")
    variant = weights.rename(weights.with_name("model.fp16.safetensors"))
    assert weight_files(weights.parent, "model") == [variant]
    assert inspect_model(folder).kind == "sd15"


def test_pickled_variants_and_shards_are_found(folder):
    variant = pickled(folder / "unet" / WEIGHTS, "diffusion_pytorch_model.fp16.bin")
    assert weight_files(folder / "unet", "diffusion_pytorch_model") == [variant]
    encoder = folder / "text_encoder"
    shard = pickled(encoder / "model.safetensors", "pytorch_model-00001-of-00001.bin")
    (encoder / "pytorch_model.bin.index.json").write_text(
        json.dumps({"weight_map": {"a": shard.name}})
    )
    assert weight_files(encoder, "model") == [shard]
    assert inspect_model(folder).precision == "fp32"


def test_folder_with_code_in_its_weights_is_refused(folder):
    pickled(folder / "unet" / WEIGHTS).unlink()
    torch.save({"a": print}, folder / "unet" / "diffusion_pytorch_model.bin")
    with pytest.raises(UserError, match=r"diffusion_pytorch_model\.bin: this file holds code"):
        inspect_model(folder)


@pytest.mark.parametrize("variant", ["fp16", "non_ema"])
def test_variants_are_found(folder, variant):
    weights = folder / "unet" / WEIGHTS
    renamed = weights.rename(weights.with_suffix(f".{variant}.safetensors"))
    assert weight_files(folder / "unet", "diffusion_pytorch_model") == [renamed]
    assert inspect_model(folder).kind == "sd15"


def test_sharded_weights_need_every_shard(folder):
    weights = folder / "unet" / WEIGHTS
    shards = [weights.with_name(f"{weights.stem}-0000{n}-of-00002.safetensors") for n in (1, 2)]
    weights.rename(shards[0])
    table = {"a": shards[0].name, "b": shards[1].name}
    index = weights.with_name(weights.name + ".index.json")
    index.write_text(json.dumps({"weight_map": table}))
    with pytest.raises(UserError, match="00002-of-00002"):
        inspect_model(folder)
    headers.write(shards[1], {"weight": (4,)})
    assert inspect_model(folder).kind == "sd15"
    assert weight_files(folder / "unet", "diffusion_pytorch_model") == shards


def test_index_of_shards_may_not_reach_out_of_its_folder(folder):
    weights = folder / "unet" / WEIGHTS
    weights.unlink()
    index = weights.with_name(weights.name + ".index.json")
    index.write_text(json.dumps({"weight_map": {"a": f"../vae/{WEIGHTS}"}}))
    with pytest.raises(UserError, match=f"unet/{WEIGHTS}"):
        inspect_model(folder)


@pytest.mark.parametrize("content", ['{"_class_name": ', "[1]", "\x00"])
def test_damaged_config_is_reported(folder, content):
    (folder / "model_index.json").write_text(content)
    with pytest.raises(
        UserError,
        match=r"model_index\.json: this file (is no JSON|holds no object)",
    ):
        inspect_model(folder)


def test_folder_without_index_suggests_the_file_in_it(tmp_path):
    headers.write(tmp_path / "models" / "nice.safetensors", {"a": (1,)})
    with pytest.raises(UserError, match=r"no model_index\.json.*nice\.safetensors"):
        inspect_model(tmp_path / "models")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="Choose the folder that holds model_index"):
        inspect_model(tmp_path / "empty")
