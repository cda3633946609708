"""What a converted model says of itself, and configs that say too little."""

import json
import shutil

from safetensors import safe_open
from safetensors.torch import load_file, save_file

from onetrainer.model_files.inspection import inspect_model


def metadata_of(path):
    with safe_open(path, framework="pt") as file:
        return file.metadata()


def with_metadata(source, target, metadata):
    save_file(load_file(source), target, metadata)
    return target


def test_a_choice_is_reported_over_anything_that_the_source_said(tmp_path, singles, run):
    said = {"ss_zero_terminal_snr": "True", "modelspec.prediction_type": "v"}
    said |= {"modelspec.predict_key": "v", "modelspec.title": "Mine"}
    source = with_metadata(singles["sdxl", "epsilon"], tmp_path / "source.safetensors", said)
    target = tmp_path / "target.safetensors"
    run(source, target, prediction="epsilon", zero_terminal_snr="off")
    metadata = metadata_of(target)
    assert metadata["ss_zero_terminal_snr"] == "False"
    assert metadata["modelspec.prediction_type"] == "epsilon"
    assert metadata["modelspec.title"] == "Mine"
    assert metadata["modelspec.architecture"] == "stable-diffusion-xl-v1-base"
    assert "modelspec.predict_key" not in metadata
    found = inspect_model(target)
    assert (found.prediction, found.zero_terminal_snr) == ("epsilon", False)
    run(target, tmp_path / "again.safetensors")


def test_architecture_and_size_of_sd2_follow_what_was_chosen(tmp_path, singles, run):
    said = {
        "modelspec.architecture": "stable-diffusion-v2-512",
        "modelspec.resolution": "512x512",
        "modelspec.author": "Ada",
    }
    tensors = load_file(singles["sd2", "epsilon"])
    save_file(tensors, tmp_path / "source.safetensors", said)
    run(tmp_path / "source.safetensors", tmp_path / "v.safetensors", prediction="v_prediction")
    metadata = metadata_of(tmp_path / "v.safetensors")
    assert metadata["modelspec.architecture"] == "stable-diffusion-v2-768-v"
    assert metadata["modelspec.resolution"] == "768x768"
    assert metadata["modelspec.author"] == "Ada"


def test_scheduler_without_a_name_and_an_index_without_tokenizers_are_filled_in(
    tmp_path, folders, run
):
    source = tmp_path / "source"
    shutil.copytree(folders["sd15", "epsilon"], source)
    for path, change in (
        (source / "scheduler" / "scheduler_config.json", {"_class_name": None}),
        (source / "model_index.json", {"tokenizer": [None, None]}),
    ):
        config = json.loads(path.read_text()) | change
        path.write_text(json.dumps({key: value for key, value in config.items() if value}))
    run(source, tmp_path / "target")
    index = json.loads((tmp_path / "target" / "model_index.json").read_text())
    assert index["scheduler"] == ["diffusers", "DDIMScheduler"]
    assert index["tokenizer"] == ["transformers", "CLIPTokenizer"]


def test_odd_scaling_factor_of_a_vae_folder_is_no_failure(tmp_path, folders):
    shutil.copytree(folders["sd15", "epsilon"] / "vae", tmp_path / "vae")
    path = tmp_path / "vae" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"scaling_factor": [0.18]}))
    assert inspect_model(tmp_path / "vae").kind == "vae"


def test_tensors_that_only_single_files_have_are_noted(tmp_path, folders, run):
    for family, added in (("sd15", 0), ("sd2", 14), ("sdxl", 1)):
        file, folder = tmp_path / f"{family}.safetensors", tmp_path / family
        notes = run(folders[family, "epsilon"], file)
        added_notes = [note for note in notes if note.startswith("Added")]
        assert [int(note.split()[1]) for note in added_notes] == [added] * bool(added)
        assert all("the model's weights are unchanged" in note for note in added_notes)
        notes += run(file, folder, prediction="epsilon")
        assert "position_ids" not in " ".join(notes)
        assert "Made up" not in " ".join(notes)
