"""What a base model is, and one sentence for each thing that is none."""

from onetrainer.guide.base_model import look_at_model
from tests.ui.project import MARKERS, SDXL_PARTS, write_model

LORA = {f"lora_unet_down_blocks_0_attentions_0_proj_in.lora_{end}.weight": (4, 4) for end in "ab"}
FLUX = {"double_blocks.0.img_attn.qkv.weight": (4, 4)}


def test_a_checkpoint_is_named_with_family_precision_size_and_place(tmp_path):
    path = write_model(tmp_path / "base.safetensors")
    found = look_at_model(str(path))
    assert (found.family, found.precision, found.side, found.problem) == ("sd15", "fp32", 512, "")
    assert (found.size, found.where) == (path.stat().st_size, str(tmp_path))
    sdxl = look_at_model(str(write_model(tmp_path / "xl.safetensors", SDXL_PARTS | MARKERS)))
    assert (sdxl.family, sdxl.side) == ("sdxl", 1024)


def test_what_is_no_base_model_is_one_sentence_each(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "style.safetensors", LORA)
    write_model(tmp_path / "flux.safetensors", FLUX)
    write_model(tmp_path / "odd.safetensors", {"weight": (2, 2)})
    (tmp_path / "page.safetensors").write_bytes(b"<!DOCTYPE html><html>Sign in</html>")
    (tmp_path / "folder").mkdir()
    for name, words in (
        ("style.safetensors", "this is a LoRA, not a complete model; choose the base model"),
        ("flux.safetensors", "is a model of Flux, which is not trained here; choose one of SD 1.5"),
        ("odd.safetensors", "not a Stable Diffusion model known"),
        ("page.safetensors", "a web page"),
        ("folder", "has no model_index.json"),
        ("missing.ckpt", "no such file or folder"),
        ("n" * 300, "cannot be read"),
    ):
        found = look_at_model(name)
        assert words in found.problem, (name, found.problem)
        assert "\n" not in found.problem
        assert found.family == ""


def test_a_name_on_the_hub_that_is_not_here_is_remote_and_of_no_known_family(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found = look_at_model("someone/never-downloaded-model")
    assert (found.is_remote, found.family, found.problem) == (True, "", "")
