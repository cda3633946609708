"""Odd base models: what is read of them is right, and what is no number is refused."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from modules.families.registry import load_family
from modules.formats.lora.lora_readers import reader_notes
from modules.jobs.extract import extract
from onetrainer.config.run.model import Model
from onetrainer.errors import UserError
from onetrainer.jobs.lora_requests import ExtractRequest
from tests import tiny
from tests.each import each

POSITIONS = "cond_stage_model.transformer.text_model.embeddings.position_ids"
PROJECTION = "conditioner.embedders.1.model.text_projection"
UNET = "unet/diffusion_pytorch_model.safetensors"


def changed(singles, key, path, **changes):
    """A single file with some tensors in place of its own."""
    source = singles[key]
    path.write_bytes(source.read_bytes())
    save_file({**load_file(source), **changes}, path)
    return path


@each("dtype", [torch.float16, torch.float32])
def test_position_ids_are_written_as_whole_numbers_in_their_order(tmp_path, dtype, singles, run):
    broken = (torch.arange(77)[None] * 0.58301).to(dtype)
    source = changed(
        singles, ("sd15", "epsilon"), tmp_path / "in.safetensors", **{POSITIONS: broken}
    )
    notes = run(source, tmp_path / "out.safetensors", precision="fp16")
    written = load_file(tmp_path / "out.safetensors")[POSITIONS]
    assert torch.equal(written, torch.arange(77)[None])
    assert written.dtype == torch.int64
    assert any(note.startswith(f"Corrected {POSITIONS}") for note in notes)
    assert not any("Corrected" in n for n in run(tmp_path / "out.safetensors", tmp_path / "again"))


def test_a_projection_in_transformers_spelling_is_not_transposed(tmp_path, singles, run):
    own = load_file(singles["sdxl", "epsilon"])
    other = {k: t for k, t in own.items() if k != PROJECTION}
    other[f"{PROJECTION}.weight"] = own[PROJECTION].T.contiguous()
    save_file(other, tmp_path / "in.safetensors")
    run(tmp_path / "in.safetensors", tmp_path / "out.safetensors")
    written = load_file(tmp_path / "out.safetensors")
    assert written.keys() == own.keys()
    assert torch.equal(written[PROJECTION], own[PROJECTION])


@each("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers_are_refused_where_they_are_read(tmp_path, value, run):
    folder = tiny.write_folder(tmp_path / "model")
    state = load_file(folder / UNET)
    state["conv_out.weight"].view(-1)[3] = value
    save_file(state, folder / UNET)
    with pytest.raises(UserError, match=r"conv_out\.weight has values that are no numbers"):
        load_family(
            Model(path=str(folder)), compute_dtype=torch.float32, device=torch.device("cpu")
        )
    with pytest.raises(UserError, match=r"conv_out\.weight has values that are no numbers"):
        run(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_every_network_is_checked_before_the_first_is_read(tmp_path):
    """The UNet, which is read first, holds what reading refuses."""
    folder = tiny.write_folder(tmp_path / "model")
    state = load_file(folder / UNET)
    state["conv_out.weight"].view(-1)[3] = float("nan")
    save_file(state, folder / UNET)
    texts = folder / "text_encoder" / "model.safetensors"
    save_file({k: t for k, t in load_file(texts).items() if "final" not in k}, texts)
    with pytest.raises(UserError, match=r"2 tensors are missing, first .*final_layer_norm"):
        load_family(
            Model(path=str(folder)), compute_dtype=torch.float32, device=torch.device("cpu")
        )


def test_weights_that_a_type_cannot_hold_are_named_as_such(tmp_path):
    folder = tiny.write_folder(tmp_path / "model")
    state = load_file(folder / UNET)
    state["conv_out.weight"].view(-1)[3] = 1e6
    save_file(state, folder / UNET)
    with pytest.raises(UserError, match="too large for float16"):
        load_family(
            Model(path=str(folder)), compute_dtype=torch.float16, device=torch.device("cpu")
        )


def test_a_difference_of_rounding_is_none(tmp_path):
    exact = tiny.write_folder(tmp_path / "exact")
    rounded = tiny.write_folder(tmp_path / "rounded", dtype=torch.float16)
    request = ExtractRequest(
        base=str(exact), tuned=str(rounded), target=str(tmp_path / "a.safetensors")
    )
    with pytest.raises(UserError, match="the same weights"):
        extract(request, lambda event: None)


def test_who_reads_a_dora_is_said_by_its_norms_and_naming():
    of_inputs, of_outputs = {"dora_scale": torch.ones(1, 4)}, {"dora_scale": torch.ones(4, 1)}
    assert "ComfyUI, Forge and A1111 read this DoRA" in reader_notes([of_inputs], "kohya")[0]
    assert "diffusers and peft read this DoRA" in reader_notes([of_outputs], "diffusers")[0]
    assert "Convert it for diffusers" in reader_notes([of_outputs], "kohya")[0]
    assert reader_notes([{"lora_up.weight": torch.ones(4, 1)}], "kohya") == []
