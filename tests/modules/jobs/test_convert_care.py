"""What a conversion keeps, leaves alone, leaves out and refuses."""

import io
import json
import shutil
import sys

import pytest
from safetensors.torch import load_file, save_file

from onetrainer.errors import UserError
from tests.modules.formats import small_models
from tests.modules.formats.small_models import assert_equal, read_folder

UNET = "model.diffusion_model."


def test_where_a_model_came_from_is_not_written(tmp_path, folders, run):
    shutil.copytree(folders["sdxl", "epsilon"], tmp_path / "odd")
    paths = {"_name_or_path": "/home/me", "name_or_path": "/home/me"}
    paths |= {"special_tokens_map_file": "/home/me/a.json", "cache_dir": "/home/me"}
    configs = [*(tmp_path / "odd").glob("*/*config.json"), tmp_path / "odd" / "model_index.json"]
    assert len(configs) == 8
    for path in configs:
        own = paths if "tokenizer" in path.name else {"_name_or_path": "/home/me"}
        path.write_text(json.dumps(json.loads(path.read_text()) | own))
    run(tmp_path / "odd", tmp_path / "folder", vae=str(folders["sdxl", "epsilon"]))
    written = [path for path in (tmp_path / "folder").rglob("*") if path.is_file()]
    assert len(written) >= 14
    assert not [path for path in written if b"/home/me" in path.read_bytes()]
    for name in ("tokenizer", "tokenizer_2"):  # and nothing else is lost
        old, new = (
            json.loads((tmp_path / home / name / "tokenizer_config.json").read_text())
            for home in ("odd", "folder")
        )
        assert new == {key: value for key, value in old.items() if key not in paths}


@pytest.mark.parametrize("end", ["part", "old"])
def test_source_with_a_name_like_the_targets_stays(tmp_path, folders, singles, run, end):
    source = tmp_path / f"b.{end}"
    shutil.copytree(folders["sd15", "epsilon"], source)
    run(source, tmp_path / "b")
    run(source, tmp_path / "b", overwrite=True)
    assert_equal(read_folder(source), read_folder(folders["sd15", "epsilon"]))
    file = shutil.copyfile(singles["sd15", "epsilon"], tmp_path / f"y.safetensors.{end}")
    run(file, tmp_path / "y.safetensors")
    assert_equal(load_file(file), load_file(tmp_path / "y.safetensors"))
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize(("target", "name"), [("one.safetensors", f"{UNET}out.2.weight"),
                                              ("folder", "unet/conv_out.weight")])  # fmt: skip
def test_weights_that_the_precision_cannot_hold_are_refused(tmp_path, singles, run, target, name):
    tensors = load_file(singles["sd15", "epsilon"])
    tensors[f"{UNET}out.2.weight"].view(-1)[3] = 70_000
    save_file(tensors, tmp_path / "large.safetensors")
    with pytest.raises(UserError, match=f"tensor {name} has values from"):
        run(tmp_path / "large.safetensors", tmp_path / target, precision="fp16")
    run(tmp_path / "large.safetensors", tmp_path / target, precision="bf16")


def test_index_keeps_what_the_model_says_and_what_is_left_out_is_noted(tmp_path, folders, run):
    shutil.copytree(folders["sdxl", "epsilon"], tmp_path / "odd")
    path = tmp_path / "odd" / "model_index.json"
    own = {"force_zeros_for_empty_prompt": False, "feature_extractor": ["transformers", "X"]}
    path.write_text(json.dumps(json.loads(path.read_text()) | own))
    notes = run(tmp_path / "odd", tmp_path / "folder")
    pipeline = small_models.PIPELINES["sdxl"].from_pretrained(tmp_path / "folder")
    assert pipeline.config["force_zeros_for_empty_prompt"] is False
    assert "Left out feature extractor." in notes
    notes = run(tmp_path / "folder", tmp_path / "one.safetensors")
    assert any("force_zeros_for_empty_prompt is False" in note for note in notes)
    assert not any("Left out" in note for note in notes)


def test_folder_keeps_the_sample_size_of_its_config(tmp_path, folders, singles, run):
    shutil.copytree(folders["sd2", "epsilon"], tmp_path / "odd")
    path = tmp_path / "odd" / "unet" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"sample_size": 96}))
    bare = tmp_path / "bare.safetensors"  # without the configs that this program stores in it
    save_file(load_file(singles["sd2", "epsilon"]), bare)
    sizes = []
    for source in (tmp_path / "odd", bare):
        run(source, tmp_path / "folder", prediction="epsilon", overwrite=True)
        sizes.append(json.loads((tmp_path / "folder/unet/config.json").read_text())["sample_size"])
    assert sizes == [96, 64]


@pytest.mark.parametrize("target", ["one.safetensors", "folder"])
def test_source_that_cannot_be_read_is_reported_as_such(
    tmp_path, folders, run, monkeypatch, target
):
    source = tmp_path / "source"
    shutil.copytree(folders["sd15", "epsilon"], source)

    class Failing(io.FileIO):
        def readinto(self, _buffer):
            raise OSError(5, "Input/output error")

    real = type(source).open

    def opened(path, mode="r", **options):
        return Failing(path) if options == {"buffering": 0} else real(path, mode, **options)

    monkeypatch.setattr(type(source), "open", opened)
    with pytest.raises(UserError, match=r"source/.*cannot be read \(input/output error\)"):
        run(source, tmp_path / target)


def test_place_that_cannot_be_written_is_reported_as_such(tmp_path, folders, run):
    (tmp_path / "closed").write_text("a file, not a folder")
    for target in ("one.safetensors", "folder"):
        with pytest.raises(UserError, match=f"{target}: cannot write here"):
            run(folders["sd15", "epsilon"], tmp_path / "closed" / target)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_what_a_source_links_to_is_never_replaced(tmp_path, folders, run):
    model, variant = tmp_path / "model", tmp_path / "variant"
    shutil.copytree(folders["sd15", "epsilon"], model)
    shutil.copytree(model, variant)
    shutil.rmtree(variant / "vae")
    (variant / "vae").symlink_to(model / "vae")
    for target in (model, model / "vae"):
        with pytest.raises(UserError, match="this would overwrite vae"):
            run(variant, target, overwrite=True)
    assert len(list((model / "vae").glob("*.safetensors"))) == 1
