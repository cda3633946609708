"""Base models in every form in which people have them, and what is refused."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from onetrainer.errors import UserError
from tests.modules.formats import small_models
from tests.modules.formats.small_models import assert_equal, read_folder

UNET = "model.diffusion_model."


def with_averages(path, target):
    """A file with the UNet's average, twice as large everywhere."""
    tensors = load_file(path)
    averages = {
        "model_ema." + name.removeprefix("model.").replace(".", ""): 2 * tensor
        for name, tensor in tensors.items()
        if name.startswith(UNET)
    }
    assert "model_ema.diffusion_modelinput_blocks00weight" in averages
    more = {"model_ema.decay": torch.tensor(0.9), "model_ema.num_updates": torch.tensor(7)}
    save_file(tensors | averages | more, target)
    return tensors


def test_ema_weights_are_left_out_or_used_when_asked_for(tmp_path, folders, singles, run):
    full, alone = tmp_path / "full.safetensors", tmp_path / "alone.safetensors"
    pruned, used = tmp_path / "pruned.safetensors", tmp_path / "ema.safetensors"
    tensors = with_averages(singles["sd15", "epsilon"], full)
    notes = run(full, pruned)
    assert_equal(load_file(pruned), tensors)
    assert any(note.startswith("Left out 688 EMA") for note in notes)
    save_file({n: t for n, t in load_file(full).items() if not n.startswith(UNET)}, alone)
    expected = {n: 2 * t if n.startswith(UNET) else t for n, t in tensors.items()}
    for source in (full, alone):
        notes = run(source, used, ema=True, overwrite=True)
        assert_equal(load_file(used), expected)
        assert "Used the EMA weights of the UNet." in notes
    with pytest.raises(UserError, match="EMA weights only"):
        run(alone, tmp_path / "two.safetensors")
    with pytest.raises(UserError, match="no EMA weights"):
        run(folders["sd15", "epsilon"], tmp_path / "two.safetensors", ema=True)


@pytest.mark.parametrize("scale", ["scale_weight", "weight_scale"])
def test_scaled_weights_are_refused(tmp_path, singles, run, scale):
    tensors = load_file(singles["sd15", "epsilon"])
    layer = f"{UNET}input_blocks.1.1.transformer_blocks.0.attn1.to_q"
    tensors[f"{layer}.weight"] = tensors[f"{layer}.weight"].to(torch.float8_e4m3fn)
    save_file(tensors, tmp_path / "plain.safetensors")
    run(tmp_path / "plain.safetensors", tmp_path / "folder", precision="fp16")
    save_file(tensors | {f"{layer}.{scale}": torch.tensor(0.5)}, tmp_path / "scaled.safetensors")
    with pytest.raises(UserError, match=r"1 tensors are stored as scaled fp8, first .*to_q"):
        run(tmp_path / "scaled.safetensors", tmp_path / "two.safetensors")


def other_vaes(tmp_path, run, folder):
    """A VAE in every form in which people have one."""
    run(folder, tmp_path / "whole.safetensors")
    start = "first_stage_model."
    bare = {
        name.removeprefix(start): tensor
        for name, tensor in load_file(tmp_path / "whole.safetensors").items()
        if name.startswith(start)
    }
    save_file(bare, tmp_path / "bare.safetensors")
    save_file({start + n: t for n, t in bare.items()}, tmp_path / "prefixed.safetensors")
    weights = folder / "vae" / "diffusion_pytorch_model.safetensors"
    old = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}
    state = load_file(weights)
    for new, former in old.items():
        state = {name.replace(f".0.{new}.", f".0.{former}."): t for name, t in state.items()}
    shutil.copytree(folder / "vae", tmp_path / "of-2022")
    save_file(state, tmp_path / "of-2022" / weights.name)
    files = (tmp_path / f"{name}.safetensors" for name in ("whole", "bare", "prefixed"))
    return [*files, folder, folder / "vae", weights, tmp_path / "of-2022"]


def test_other_vae_takes_the_place_of_the_models_own(tmp_path, configs, folders, singles, run):
    source = folders["sd15", "epsilon"]
    other = small_models.write_folder(tmp_path / "other", "sd15", configs, seed=1)
    expected = read_folder(source) | {
        name: t for name, t in read_folder(other).items() if name.startswith("vae/")
    }
    tensors = load_file(singles["sd15", "epsilon"])
    no_vae = {n: t for n, t in tensors.items() if not n.startswith("first_stage_model.")}
    save_file(no_vae, tmp_path / "no-vae.safetensors")
    for place, vae in enumerate(other_vaes(tmp_path, run, other)):
        target = tmp_path / f"out-{place}"
        notes = run(tmp_path / "no-vae.safetensors", target, vae=str(vae))
        assert_equal(read_folder(target), expected)
        assert f"Used the VAE of {vae.name}." in notes


def test_other_forms_of_a_file_become_the_usual_one(tmp_path, singles, run):
    def convert(source, family):
        run(source, tmp_path / "two.safetensors", prediction="epsilon", overwrite=True)
        expected = load_file(singles[family, "epsilon"])
        assert_equal(load_file(tmp_path / "two.safetensors"), expected)

    tensors = load_file(singles["sd15", "epsilon"])
    torch.save({"state_dict": tensors, "global_step": 7}, tmp_path / "one.ckpt")
    convert(tmp_path / "one.ckpt", "sd15")
    old = {n.replace("transformer.text_model.", "transformer."): t for n, t in tensors.items()}
    save_file(old, tmp_path / "old.safetensors")
    convert(tmp_path / "old.safetensors", "sd15")
    tensors = load_file(singles["sd2", "epsilon"])
    ends = (".1.proj_in.weight", ".1.proj_out.weight")  # linear layers as convolutions
    odd = {name: t[:, :, None, None] for name, t in tensors.items() if name.endswith(ends)}
    assert len(odd) == 32  # sixteen transformers
    save_file(tensors | odd, tmp_path / "odd.safetensors")
    convert(tmp_path / "odd.safetensors", "sd2")


def test_shards_and_variants_of_a_folder_are_read(tmp_path, folders, run):
    source = folders["sd15", "epsilon"]
    shutil.copytree(source, tmp_path / "odd")
    unet = tmp_path / "odd" / "unet" / "diffusion_pytorch_model.safetensors"
    state = load_file(unet)
    names = {
        name: f"diffusion_pytorch_model-{1 + i % 2}-of-2.safetensors"
        for i, name in enumerate(state)
    }
    for file in set(names.values()):
        save_file({n: t for n, t in state.items() if names[n] == file}, unet.with_name(file))
    unet.with_name(unet.name + ".index.json").write_text(json.dumps({"weight_map": names}))
    unet.unlink()
    vae = tmp_path / "odd" / "vae" / unet.name
    vae.rename(vae.with_suffix(".fp16.safetensors"))
    run(tmp_path / "odd", tmp_path / "folder")
    assert_equal(read_folder(tmp_path / "folder"), read_folder(source))


def test_what_is_no_whole_model_is_refused_by_what_is_missing(tmp_path, folders, singles, run):
    tensors, bad = load_file(singles["sd15", "epsilon"]), tmp_path / "bad.safetensors"
    for start, message in (
        (f"{UNET}out.2.weight", r"1 tensor is missing.*out\.2\.weight"),
        ("first_stage_model.", r"bad\.safetensors.*no VAE"),
    ):
        save_file({n: t for n, t in tensors.items() if not n.startswith(start)}, bad)
        with pytest.raises(UserError, match=message):
            run(bad, tmp_path / "folder")
    with pytest.raises(UserError, match="a VAE alone"):
        run(folders["sd15", "epsilon"] / "vae", tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
