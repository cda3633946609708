"""Base models in folders, those of other programs, and of links that lead back."""

from onetrainer.demo.write import write_base
from onetrainer.model_files.find import ModelFinder, model_paths
from tests.ui.project import SDXL_PARTS, write_model


def test_base_models_are_found_with_their_family_and_nothing_else_is(tmp_path):
    (tmp_path / "deep").mkdir()
    write_model(tmp_path / "deep" / "xl.safetensors", SDXL_PARTS)
    write_model(tmp_path / "base.safetensors")
    write_model(tmp_path / "vae.safetensors", {"decoder.conv_in.weight": (4, 4, 1, 1)})
    (tmp_path / "broken.ckpt").write_bytes(b"anything")
    (tmp_path / "picture.png").write_bytes(b"")
    found = {each.path.name: each for each in ModelFinder().find(tmp_path)}
    assert {name: each.family for name, each in found.items()} == {
        "base.safetensors": "sd15",
        "xl.safetensors": "sdxl",
    }
    assert found["base.safetensors"].precision == "fp32"
    assert found["base.safetensors"].size == (tmp_path / "base.safetensors").stat().st_size


def test_a_diffusers_folder_is_one_model(tmp_path):
    write_base(tmp_path / "model")
    found = list(ModelFinder().find(tmp_path))
    assert [each.path for each in found] == [tmp_path / "model"]
    assert found[0].size > 1000


def test_only_the_base_models_of_another_program_are_listed(tmp_path):
    for name, inner in (("ComfyUI", "checkpoints"), ("webui", "Stable-diffusion")):
        for kind in (inner, "upscalers"):
            (tmp_path / name / "models" / kind).mkdir(parents=True)
            write_model(tmp_path / name / "models" / kind / "base.safetensors")
        (path,) = model_paths(tmp_path / name)
        assert path.parent.name == inner


def test_links_that_lead_back_and_folders_that_are_missing_end(tmp_path):
    write_model(tmp_path / "base.safetensors")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert len(list(model_paths(tmp_path))) == 1
    assert list(model_paths(tmp_path / "missing")) == []
