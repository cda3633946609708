import pytest
import torch
from diffusers import StableDiffusionPipeline
from diffusers.loaders.single_file_utils import (
    convert_ldm_clip_checkpoint,
    convert_ldm_unet_checkpoint,
    convert_ldm_vae_checkpoint,
)
from safetensors.torch import load_file, save_file

from modules.families.prompts import chunk_tokens
from modules.families.sd15 import CONFIGS, load_sd15
from modules.interfaces import Conditioning
from onetrainer.errors import UserError
from tests import tiny

LOADING = {"compute_dtype": torch.float32, "device": tiny.CPU}


@pytest.fixture(scope="module")
def family():
    """One for all the tests here, which only read it."""
    return tiny.family()


@pytest.fixture(scope="module")
def pipeline(tiny_folder):
    return StableDiffusionPipeline.from_pretrained(tiny_folder, local_files_only=True)


def states(family):
    return {
        "unet": family.unet.state_dict(),
        "vae": family.vae.state_dict(),
        "te": family.text_encoders["te"].state_dict(),
    }


def assert_equal_states(one, other):
    for part, state in states(one).items():
        others = states(other)[part]
        assert state.keys() == others.keys()
        assert all(torch.equal(state[name], others[name]) for name in state)


def test_single_file_equals_folder(tiny_folder, tiny_file, tiny_configs, no_network):
    folder = load_sd15(tiny_folder, **LOADING)
    file = load_sd15(tiny_file, configs=tiny_configs, **LOADING)
    assert_equal_states(folder, file)
    assert torch.equal(folder.encode_text(["a cat"]).hidden, file.encode_text(["a cat"]).hidden)


def test_single_file_equals_what_diffusers_makes_of_it(tiny_file, tiny_configs):
    ours = states(load_sd15(tiny_file, configs=tiny_configs, **LOADING))
    theirs = {
        "unet": convert_ldm_unet_checkpoint(load_file(tiny_file), tiny.UNET),
        "vae": convert_ldm_vae_checkpoint(load_file(tiny_file), tiny.VAE),
    }
    for part, state in theirs.items():
        assert state.keys() == ours[part].keys()
        assert all(torch.equal(state[name], ours[part][name]) for name in state)
    clip = convert_ldm_clip_checkpoint(load_file(tiny_file))
    clip.pop("text_model.embeddings.position_ids")
    for name, tensor in clip.items():
        own = ours["te"]
        assert torch.equal(own.get(name, own.get(name.removeprefix("text_model."))), tensor)


def test_old_file_without_text_model_level_and_with_ema_opens(
    tmp_path, tiny_file, tiny_configs, no_network
):
    state = load_file(tiny_file)
    old = {name.replace("transformer.text_model.", "transformer."): t for name, t in state.items()}
    old |= {"model_ema.decay": torch.ones(()), "alphas_cumprod": torch.ones(1000)}
    save_file(old, tmp_path / "old.safetensors")
    assert_equal_states(
        load_sd15(tmp_path / "old.safetensors", configs=tiny_configs, **LOADING), tiny.family()
    )


def test_fp16_variant_folder_opens_in_bf16_with_fp32_vae(tmp_path, no_network):
    folder = tiny.write_folder(tmp_path / "tiny", dtype=torch.float16)
    for file in list(folder.rglob("*.safetensors")):
        file.rename(file.with_suffix(".fp16.safetensors"))
    family = load_sd15(folder, compute_dtype=torch.bfloat16, device=tiny.CPU)
    assert {p.dtype for p in family.unet.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in family.text_encoders["te"].parameters()} == {torch.bfloat16}
    assert {p.dtype for p in family.vae.parameters()} == {torch.float32}


def test_folder_saved_by_diffusers_opens(tmp_path, family, pipeline, no_network):
    pipeline.save_pretrained(tmp_path / "saved")
    saved = load_sd15(tmp_path / "saved", **LOADING)
    assert_equal_states(saved, family)
    assert torch.equal(saved.encode_text(["Wow!"]).hidden, family.encode_text(["Wow!"]).hidden)


def test_folder_with_the_vae_names_of_2022_opens(tmp_path, family, no_network):
    folder = tiny.write_folder(tmp_path / "tiny")
    weights = folder / "vae" / "diffusion_pytorch_model.safetensors"
    old = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}
    state = load_file(weights)
    for name in list(state):
        for new, former in old.items():
            if f"attentions.0.{new}." in name:
                state[name.replace(new, former)] = state.pop(name)
    save_file(state, weights)
    assert_equal_states(load_sd15(folder, **LOADING), family)


def test_loaded_family_is_frozen_and_in_evaluation_mode(tiny_folder):
    family = load_sd15(tiny_folder, **LOADING)
    for part in (family.unet, family.vae, *family.text_encoders.values()):
        assert not part.training
        assert not any(parameter.requires_grad for parameter in part.parameters())


def test_file_with_a_tensor_missing_names_it(tmp_path, tiny_file, tiny_configs):
    state = load_file(tiny_file)
    del state["model.diffusion_model.out.2.weight"]
    save_file(state, tmp_path / "part.safetensors")
    with pytest.raises(UserError, match=r"part\.safetensors: 1 of .*out\.2\.weight"):
        load_sd15(tmp_path / "part.safetensors", configs=tiny_configs, **LOADING)


def test_folder_with_a_tensor_missing_names_it(tmp_path):
    folder = tiny.write_folder(tmp_path / "tiny")
    weights = folder / "text_encoder" / "model.safetensors"
    state = load_file(weights)
    del state["text_model.final_layer_norm.bias"]
    save_file(state, weights)
    with pytest.raises(UserError, match="final_layer_norm"):
        load_sd15(folder, **LOADING)


def test_model_with_other_widths_than_its_configs_is_refused(tiny_file):
    with pytest.raises(UserError, match="another shape"):
        load_sd15(tiny_file, configs=CONFIGS, **LOADING)


def test_velocity_and_schedule_are_read_from_the_folder(tmp_path):
    folder = tiny.write_folder(tmp_path / "tiny")
    config = folder / "scheduler" / "scheduler_config.json"
    config.write_text(config.read_text().replace('"epsilon"', '"v_prediction"'))
    assert load_sd15(folder, **LOADING).prediction == "v_prediction"
    config.write_text(config.read_text().replace("scaled_linear", "squaredcos_cap_v2"))
    with pytest.raises(UserError, match="schedule of its own"):
        load_sd15(folder, **LOADING)


@pytest.mark.parametrize("prompt", ["", "a cat", "Wow! (détail:1.2), " * 7])
def test_short_prompt_encodes_as_in_the_diffusers_pipeline(family, pipeline, prompt):
    theirs, _ = pipeline.encode_prompt(prompt, "cpu", 1, False)
    torch.testing.assert_close(family.encode_text([prompt]).hidden, theirs, atol=1e-6, rtol=0)


def test_long_prompts_are_chunks_of_75_and_short_ones_are_filled_up(family):
    tokenizer, encoder = family.prompts.tokenizer, family.text_encoders["te"]
    long = " ".join(["red"] * 80)
    red, start, end = tokenizer("red")["input_ids"][1], 49406, 49407
    by_hand = [
        [start, *[red] * 75, end],
        [start, *[red] * 5, end, *[end] * 70],
        [start, red, end, *[end] * 74],
        [start, *[end] * 76],
    ]
    assert chunk_tokens(tokenizer, [long, "red"]).flatten(0, 1).tolist() == by_hand
    with torch.no_grad():
        expected = encoder(input_ids=torch.tensor(by_hand)).last_hidden_state.view(2, 154, -1)
        got = family.encode_text([long, "red"]).hidden
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=0)


def test_chunks_do_not_depend_on_the_other_captions(family):
    with torch.no_grad():
        alone = family.encode_text(["red " * 80]).hidden
        together = family.encode_text(["red " * 80, "blue"]).hidden
    torch.testing.assert_close(together[:1], alone, atol=1e-6, rtol=0)


def test_tokenizer_ids_are_those_of_clip(family):
    # Made once with open_clip's own tokenizer.
    ids = [49406, 320, 1125, 539, 320, 2368, 267, 2781, 256, 15304, 49407]
    assert family.prompts.tokenizer("A photo of  a CAT, wow! café")["input_ids"] == ids


def test_images_and_latents_are_scaled_and_inputs_left_alone(family):
    pixels = torch.rand(2, 3, 64, 32, generator=torch.Generator().manual_seed(1)) * 2 - 1
    moments = family.encode_images(pixels)
    posterior = family.vae.encode(pixels).latent_dist
    assert moments.mean.shape == moments.std.shape == (2, 4, 8, 4)
    torch.testing.assert_close(moments.mean, posterior.mean * 0.18215)
    torch.testing.assert_close(moments.std, posterior.std * 0.18215)
    latents = moments.mean.clone()
    decoded = family.decode_latents(latents)
    assert torch.equal(latents, moments.mean)
    expected = family.vae.decode(moments.mean / 0.18215).sample.clamp(-1, 1)
    torch.testing.assert_close(decoded, expected)


def test_half_precision_family_predicts_float32_and_keeps_the_vae_out_of_autocast():
    family = tiny.family(compute_dtype=torch.bfloat16)
    noisy = torch.ones(1, 4, 8, 8)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        predicted = family.predict(noisy, torch.tensor([500]), Conditioning(torch.ones(1, 77, 32)))
        inside = family.decode_latents(noisy)
    assert predicted.dtype == torch.float32
    with torch.no_grad():
        assert torch.equal(inside, family.decode_latents(noisy))


def test_decoder_lets_gradients_through(family):
    latents = torch.zeros(1, 4, 8, 8, requires_grad=True)
    family.decode_latents(latents).mean().backward()
    assert latents.grad.abs().sum() > 0
