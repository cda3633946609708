"""Every family out of every kind of file it comes in, against diffusers' own objects."""

import pytest
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from diffusers.loaders.single_file_utils import (
    convert_ldm_clip_checkpoint,
    convert_ldm_unet_checkpoint,
    convert_ldm_vae_checkpoint,
)
from safetensors.torch import load_file, save_file

from modules.families.load import load
from onetrainer.config.run.model import Model
from onetrainer.errors import UserError
from onetrainer.families.registry import family_spec
from tests import tiny
from tests.cases import cases
from tests.close import close

pytestmark = pytest.mark.usefixtures("real_blocks")

SIZES = torch.tensor([[70.0, 130.0, 3.0, 5.0, 64.0, 128.0]])


def loaded(path, name="sd15", *, configs=None, dtype=torch.float32, **settings):
    section = Model(family=name, path=str(path), **settings)
    spec = family_spec(name)
    return load(spec, section, compute_dtype=dtype, device=tiny.CPU, configs=configs)


def families(*few):
    """Some families in every run, the others among the long tests."""
    parameters = cases(tiny.FAMILIES, few)
    return pytest.mark.parametrize("written", parameters, indirect=True, scope="module")


@pytest.fixture(scope="module", params=tiny.FAMILIES)
def written(request, tmp_path_factory):
    """One family as a folder, as a file, and what the file is opened with."""
    home, name = tmp_path_factory.mktemp(request.param), request.param
    return (
        name,
        tiny.write_folder(home / "folder", name=name),
        tiny.write_single_file(home / "file.safetensors", name=name),
        tiny.write_configs(home / "configs", name),
    )


@pytest.fixture
def choice(written):
    # A file of SD 2 does not say what it predicts.
    return {"prediction": "epsilon"} if written[0].startswith("sd2") else {}


def states(family):
    encoders = {name: part.state_dict() for name, part in family.text_encoders.items()}
    return {"unet": family.unet.state_dict(), "vae": family.vae.state_dict(), **encoders}


def assert_equal_states(one, other):
    assert states(one).keys() == states(other).keys()
    for part, state in states(one).items():
        others = states(other)[part]
        assert state.keys() == others.keys()
        assert all(torch.equal(state[name], others[name]) for name in state)


def predicted(family, *, dtype=torch.float32):
    noisy = torch.randn(1, 4, 8, 16, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        text = family.encode_text(["a red square"])
        return family.predict(noisy, torch.tensor([500]), text, time_ids=SIZES)


@families("sdxl")
def test_folder_and_file_of_every_family_are_the_same_model(written, choice, no_network):
    name, folder, file, configs = written
    one, other = loaded(folder, name), loaded(file, name, configs=configs, **choice)
    assert_equal_states(one, other)
    assert_equal_states(one, tiny.family(name))
    # Kernels may round otherwise where memory begins elsewhere.
    close(predicted(one), predicted(other))


@families("sdxl")
def test_ckpt_of_every_family_is_the_same_model(written, choice, tmp_path, no_network):
    name, folder, file, configs = written
    torch.save({"state_dict": load_file(file), "global_step": 7}, tmp_path / "model.ckpt")
    opened = loaded(tmp_path / "model.ckpt", name, configs=configs, **choice)
    assert_equal_states(opened, loaded(folder, name))


@families("sd15-inpainting", "sd2")
def test_file_gives_what_diffusers_makes_of_it(written, choice):
    name, _, file, configs = written
    ours = states(loaded(file, name, configs=configs, **choice))
    theirs = {
        "unet": convert_ldm_unet_checkpoint(load_file(file), tiny.configs(name)["unet"]),
        "vae": convert_ldm_vae_checkpoint(load_file(file), tiny.configs(name)["vae"]),
    }
    for part, state in theirs.items():
        assert state.keys() == ours[part].keys()
        assert all(torch.equal(state[key], ours[part][key]) for key in state)


def test_clip_of_sd15_is_what_diffusers_makes_of_it(tiny_file, tiny_configs):
    ours = states(loaded(tiny_file, configs=tiny_configs))["te"]
    theirs = convert_ldm_clip_checkpoint(load_file(tiny_file))
    theirs.pop("text_model.embeddings.position_ids")
    for name, tensor in theirs.items():
        assert torch.equal(ours.get(name, ours.get(name.removeprefix("text_model."))), tensor)


@families("sd15-inpainting", "sdxl")
def test_every_family_predicts_as_diffusers_unet_does(written):
    name, folder, _, _ = written
    family = loaded(folder, name)
    unet = UNet2DConditionModel.from_pretrained(folder / "unet", local_files_only=True)
    noisy = torch.randn(1, 4, 8, 16, generator=torch.Generator().manual_seed(3))
    text = family.encode_text(["a red square"])
    masked = torch.randn(1, 5, 8, 16, generator=torch.Generator().manual_seed(4))
    extra = {"text_embeds": text.pooled, "time_ids": SIZES} if name.startswith("sdxl") else None
    given = torch.cat([noisy, masked], 1) if name.endswith("inpainting") else noisy
    with torch.no_grad():
        expected = unet(given, 500, text.hidden, added_cond_kwargs=extra).sample
        ours = family.predict(noisy, torch.tensor([500]), text, time_ids=SIZES, masked=masked)
    close(ours, expected)


@pytest.mark.parametrize("name", cases(["sd15", "sdxl"], ["sd15"]))
def test_fp16_variant_folder_opens_in_bf16_with_fp32_vae(tmp_path, name, no_network):
    folder = tiny.write_folder(tmp_path / "tiny", name=name, dtype=torch.float16)
    for file in list(folder.rglob("*.safetensors")):
        file.rename(file.with_suffix(".fp16.safetensors"))
    family = loaded(folder, name, dtype=torch.bfloat16)
    for part in (family.unet, *family.text_encoders.values()):
        assert {p.dtype for p in part.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in family.vae.parameters()} == {torch.float32}


def test_sharded_folder_opens(tmp_path, no_network):
    folder = tiny.write_folder(tmp_path / "tiny", name="sdxl")
    unet = UNet2DConditionModel.from_pretrained(folder / "unet", local_files_only=True)
    (folder / "unet" / "diffusion_pytorch_model.safetensors").unlink()
    unet.save_pretrained(folder / "unet", max_shard_size="100KB")
    assert len(list((folder / "unet").glob("*-of-*.safetensors"))) > 1
    assert_equal_states(loaded(folder, "sdxl"), tiny.family("sdxl"))


def test_folder_of_pickles_opens_and_one_with_code_does_not(tmp_path, no_network):
    folder = tiny.write_folder(tmp_path / "tiny")
    names = {"text_encoder": "pytorch_model"}
    for part in ("unet", "vae", "text_encoder"):
        (file,) = (folder / part).glob("*.safetensors")
        target = file.with_name(names.get(part, file.stem) + ".bin")
        torch.save(load_file(file), target)
        file.unlink()
    assert_equal_states(loaded(folder), tiny.family())

    class Evil:
        def __reduce__(self):
            return (print, ("it ran",))

    torch.save({"a": Evil()}, folder / "unet" / "diffusion_pytorch_model.bin")
    with pytest.raises(UserError, match="print"):
        loaded(folder)


def test_folder_saved_by_diffusers_opens(tmp_path, no_network):
    from diffusers import StableDiffusionXLPipeline

    folder = tiny.write_folder(tmp_path / "tiny", name="sdxl")
    pipeline = StableDiffusionXLPipeline.from_pretrained(folder, local_files_only=True)
    pipeline.save_pretrained(tmp_path / "saved")
    saved = loaded(tmp_path / "saved", "sdxl")
    assert_equal_states(saved, tiny.family("sdxl"))
    ours = tiny.family("sdxl").encode_text(["Wow!"])
    assert torch.equal(saved.encode_text(["Wow!"]).hidden, ours.hidden)


def test_old_file_without_text_model_level_and_with_ema_opens(
    tmp_path, tiny_file, tiny_configs, no_network
):
    state = load_file(tiny_file)
    old = {name.replace("transformer.text_model.", "transformer."): t for name, t in state.items()}
    old |= {"model_ema.decay": torch.ones(()), "alphas_cumprod": torch.ones(1000)}
    save_file(old, tmp_path / "old.safetensors")
    assert_equal_states(loaded(tmp_path / "old.safetensors", configs=tiny_configs), tiny.family())


def test_sd2_file_with_projections_as_convolutions_opens(tmp_path):
    file = tiny.write_single_file(tmp_path / "sd2.safetensors", name="sd2")
    configs = tiny.write_configs(tmp_path / "configs", "sd2")
    state = load_file(file)
    odd = {n: t[:, :, None, None] if "proj_in.w" in n or ("proj_out.w" in n and t.ndim == 2) else t
           for n, t in state.items()}  # fmt: skip
    save_file(odd, tmp_path / "odd.safetensors")
    opened = loaded(tmp_path / "odd.safetensors", "sd2", configs=configs, prediction="epsilon")
    assert_equal_states(opened, tiny.family("sd2"))


def test_folder_with_the_vae_names_of_2022_opens(tmp_path, no_network):
    folder = tiny.write_folder(tmp_path / "tiny")
    weights = folder / "vae" / "diffusion_pytorch_model.safetensors"
    old = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}
    state = load_file(weights)
    for name in list(state):
        for new, former in old.items():
            if f"attentions.0.{new}." in name:
                state[name.replace(new, former)] = state.pop(name)
    save_file(state, weights)
    assert_equal_states(loaded(folder), tiny.family())


@families("sdxl")
def test_loaded_family_is_frozen_and_in_evaluation_mode(written):
    name, folder, _, _ = written
    family = loaded(folder, name)
    for part in (family.unet, family.vae, *family.text_encoders.values()):
        assert not part.training
        assert not any(parameter.requires_grad for parameter in part.parameters())


@pytest.fixture(scope="module")
def other_vae(tmp_path_factory):
    """A VAE unlike the tiny model's own, as a file of each kind and as a folder."""
    folder = tmp_path_factory.mktemp("other-vae")
    made = tiny.components(seed=9)
    whole = tiny.write_single_file(folder / "whole.safetensors", made)
    state = load_file(whole)
    bare = {n.removeprefix("first_stage_model."): t for n, t in state.items()
            if n.startswith("first_stage_model.")}  # fmt: skip
    save_file(bare, folder / "bare.safetensors")
    torch.save({"state_dict": bare}, folder / "bare.pt")
    save_file(dict(made.vae.state_dict()), folder / "diffusers.safetensors")
    made.vae.save_pretrained(folder / "vae-alone")
    tiny.write_folder(folder / "model", made)
    return folder, made.vae.state_dict()


@pytest.mark.parametrize(
    "kind",
    cases(
        ["whole.safetensors", "bare.safetensors", "bare.pt", "diffusers.safetensors", "vae-alone",
         "model"],
        ["bare.pt", "diffusers.safetensors", "model"],
    ),
)  # fmt: skip
def test_another_vae_takes_the_place_of_the_models_own(other_vae, tiny_folder, kind):
    folder, wanted = other_vae
    family = loaded(tiny_folder, vae=str(folder / kind))
    got = family.vae.state_dict()
    assert got.keys() == wanted.keys()
    assert all(torch.equal(got[name], wanted[name]) for name in got)
    assert not torch.equal(family.vae.conv_in.weight if hasattr(family.vae, "conv_in")
                           else family.vae.encoder.conv_in.weight,
                           tiny.family().vae.encoder.conv_in.weight)  # fmt: skip


def test_file_without_vae_opens_with_another_one(tmp_path, tiny_file, tiny_configs, other_vae):
    folder, wanted = other_vae
    state = {n: t for n, t in load_file(tiny_file).items() if not n.startswith("first_stage_")}
    save_file(state, tmp_path / "no-vae.safetensors")
    path = tmp_path / "no-vae.safetensors"
    with pytest.raises(UserError, match="VAE"):
        loaded(path, configs=tiny_configs)
    family = loaded(path, configs=tiny_configs, vae=str(folder / "bare.safetensors"))
    assert torch.equal(family.vae.state_dict()["quant_conv.weight"], wanted["quant_conv.weight"])


def test_sdxl_scales_latents_by_its_own_factor(tmp_path):
    folder = tiny.write_folder(tmp_path / "tiny", name="sdxl")
    pixels = torch.zeros(1, 3, 16, 16)
    family = loaded(folder, "sdxl")
    theirs = AutoencoderKL.from_pretrained(folder / "vae", local_files_only=True).encode(pixels)
    expected = theirs.latent_dist.mean * 0.13025
    close(family.encode_images(pixels).mean, expected)


def test_single_file_of_unusual_size_is_refused(tiny_file):
    with pytest.raises(UserError, match="unusual size"):
        loaded(tiny_file)


def test_file_with_a_tensor_missing_names_it(tmp_path, tiny_file, tiny_configs):
    state = load_file(tiny_file)
    del state["model.diffusion_model.out.2.weight"]
    save_file(state, tmp_path / "part.safetensors")
    with pytest.raises(UserError, match=r"part\.safetensors: 1 tensor is missing.*out\.2\.weight"):
        loaded(tmp_path / "part.safetensors", configs=tiny_configs)


def test_folder_with_a_tensor_missing_names_it(tmp_path):
    folder = tiny.write_folder(tmp_path / "tiny")
    weights = folder / "text_encoder" / "model.safetensors"
    state = load_file(weights)
    del state["text_model.final_layer_norm.bias"]
    save_file(state, weights)
    with pytest.raises(UserError, match="final_layer_norm"):
        loaded(folder)


def test_model_with_other_widths_than_its_configs_is_refused(tiny_file):
    with pytest.raises(UserError, match=r"has the shape \[8\], not \[320\]"):
        loaded(tiny_file, configs=family_spec("sd15").configs)


@families("sd15-inpainting", "sdxl")
def test_wrong_family_is_refused_with_the_right_one_named(written):
    name, folder, _, _ = written
    wrong = "sd15" if name != "sd15" else "sdxl"
    with pytest.raises(UserError) as caught:
        loaded(folder, wrong)
    assert f'"{name}"' in str(caught.value)


def test_velocity_and_schedule_are_read_from_the_folder(tmp_path):
    folder = tiny.write_folder(
        tmp_path / "v", name="sd2", prediction="v_prediction", zero_terminal_snr=True
    )
    family = loaded(folder, "sd2")
    assert family.process.prediction == "v_prediction"
    assert family.process.settings.zero_terminal_snr
    assert family.process.levels.signal[-1] == 0
    with pytest.raises(UserError, match="v_prediction"):  # because of the zero terminal SNR
        loaded(folder, "sd2", prediction="epsilon")
    plain = tiny.write_folder(tmp_path / "plain", prediction="epsilon")
    assert loaded(plain, prediction="v_prediction").process.prediction == "v_prediction"
    config = folder / "scheduler" / "scheduler_config.json"
    config.write_text(config.read_text().replace("scaled_linear", "squaredcos_cap_v2"))
    with pytest.raises(UserError, match="another noise schedule"):
        loaded(folder, "sd2")


def test_marker_tensors_mean_velocity_and_zero_snr(tmp_path):
    file = tiny.write_single_file(tmp_path / "plain.safetensors", name="sdxl")
    configs = tiny.write_configs(tmp_path / "configs", "sdxl")
    marks = {"v_pred": torch.tensor([]), "ztsnr": torch.tensor([])}
    save_file(load_file(file) | marks, tmp_path / "marked.safetensors")
    assert loaded(file, "sdxl", configs=configs).process.prediction == "epsilon"
    marked = loaded(tmp_path / "marked.safetensors", "sdxl", configs=configs)
    assert marked.process.prediction == "v_prediction"
    assert marked.process.levels.signal[-1] == 0


def test_file_of_sd2_without_marker_asks_for_the_prediction(tmp_path):
    file = tiny.write_single_file(tmp_path / "sd2.safetensors", name="sd2")
    configs = tiny.write_configs(tmp_path / "configs", "sd2")
    with pytest.raises(UserError, match=r"model\.prediction"):
        loaded(file, "sd2", configs=configs)
    chosen = loaded(file, "sd2", configs=configs, prediction="v_prediction")
    assert chosen.process.prediction == "v_prediction"
