"""What a loaded family does: sizes, masks, clip skip, scaling, number formats."""

import json
from dataclasses import replace

import pytest
import torch

from modules.families.components import load_tokenizer
from modules.formats.files.component_configs import MODELS
from modules.interfaces import Conditioning
from onetrainer.errors import UserError
from tests import tiny
from tests.close import close

SIZES = torch.tensor([[70.0, 130.0, 3.0, 5.0, 64.0, 128.0]])


@pytest.mark.parametrize("name", ["sd15-inpainting", "sdxl-inpainting"])
def test_inpainting_family_paints_everything_where_no_mask_is_given(name):
    family = tiny.family(name)
    gray = family.encode_images(torch.zeros(1, 3, 64, 128)).mean
    masked = torch.cat([torch.ones(1, 1, 8, 16), gray], dim=1)
    noisy = torch.randn(1, 4, 8, 16, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        text = family.encode_text(["a red square"])
        conditioned = family.predict(noisy, torch.tensor([9]), text, time_ids=SIZES, masked=masked)
        ours = family.predict(noisy, torch.tensor([9]), text, time_ids=SIZES)
    close(ours, conditioned)


def test_sdxl_pays_heed_to_each_of_the_six_sizes():
    family = tiny.family("sdxl")
    noisy = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(3))
    text = family.encode_text(["a cat"])
    seen = []
    for place in range(6):
        sizes = SIZES.clone()
        sizes[0, place] += 1000
        with torch.no_grad():
            seen.append(family.predict(noisy, torch.tensor([500]), text, time_ids=sizes))
    differences = [(a - b).abs().max() for i, a in enumerate(seen) for b in seen[:i]]
    assert min(differences) > 1e-6


def test_sdxl_sizes_stay_exact_in_half_precision():
    # 1023 and 1025 are one number in bfloat16.
    family = tiny.family("sdxl", compute_dtype=torch.bfloat16)
    text = family.encode_text(["a cat"])
    one, other = (family._added(text, torch.full((1, 6), side)) for side in (1023.0, 1025.0))
    assert not torch.equal(one["time_ids"], other["time_ids"])


def test_clip_skip_counts_layers_as_inference_programs_do():
    captions = ["a cat"]
    encoder = tiny.family().text_encoders["te"]
    ids = torch.tensor([[49406, 320, 2368, *[49407] * 74]])
    with torch.no_grad():
        before_last = encoder(ids, output_hidden_states=True).hidden_states[-2]
        norm = getattr(encoder, "text_model", encoder).final_layer_norm
        ours = tiny.family(clip_skip=2).encode_text(captions).hidden
        close(ours, norm(before_last))
        first, unset = (tiny.family(clip_skip=n).encode_text(captions).hidden for n in (1, 0))
    assert torch.equal(first, unset)


def test_clip_skip_of_a_layer_that_is_not_there_is_refused():
    for name, skip in (("sd2", 1), ("sd2", 4), ("sd15", 3), ("sdxl", 4)):
        with pytest.raises(UserError, match="clip_skip"):
            tiny.family(name, clip_skip=skip)
    for name, skip in (("sd2", 3), ("sd15", 2), ("sdxl", 3)):
        assert tiny.family(name, clip_skip=skip).encode_text(["a cat"]).hidden.isfinite().all()


def test_tokenizer_of_a_folder_leaves_exclamation_marks_alone(tmp_path):
    folder = tiny.write_folder(tmp_path / "tiny", name="sd2")
    config = json.loads((folder / "tokenizer" / "tokenizer_config.json").read_text())
    assert config["pad_token"] == "!"
    assert load_tokenizer(folder)("wow!")["input_ids"][1:-1] == [2781, 256]
    assert load_tokenizer(MODELS / "sd15")("wow!")["input_ids"][1:-1] == [2781, 256]


def test_images_and_latents_are_scaled_and_inputs_left_alone():
    family = tiny.family()
    pixels = torch.rand(2, 3, 64, 32, generator=torch.Generator().manual_seed(1)) * 2 - 1
    moments = family.encode_images(pixels)
    posterior = family.vae.encode(pixels).latent_dist
    assert moments.mean.shape == moments.std.shape == (2, 4, 8, 4)
    close(moments.mean, posterior.mean * 0.18215)
    close(moments.std, posterior.std * 0.18215)
    latents = moments.mean.clone()
    decoded = family.decode_latents(latents)
    assert torch.equal(latents, moments.mean)
    expected = family.vae.decode(moments.mean / 0.18215).sample.clamp(-1, 1)
    close(decoded, expected)


def test_half_precision_family_predicts_float32_and_keeps_the_vae_out_of_autocast():
    family = tiny.family(compute_dtype=torch.bfloat16)
    noisy, text = torch.ones(1, 4, 8, 8), Conditioning(torch.ones(1, 77, 32))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        predicted = family.predict(noisy, torch.tensor([500]), text, time_ids=SIZES)
        inside = family.decode_latents(noisy)
    assert predicted.dtype == torch.float32
    with torch.no_grad():
        assert torch.equal(inside, family.decode_latents(noisy))


def test_decoder_lets_gradients_through():
    latents = torch.zeros(1, 4, 8, 8, requires_grad=True)
    tiny.family().decode_latents(latents).mean().backward()
    assert latents.grad.abs().sum() > 0


def test_large_images_are_decoded_in_tiles_of_half_a_thousand_pixels(monkeypatch):
    family = replace(tiny.family(), vae_tiling=True)
    shapes = []
    forward = family.vae.decoder.forward
    monkeypatch.setattr(
        family.vae.decoder, "forward", lambda z, *rest: shapes.append(z.shape) or forward(z, *rest)
    )
    latents = torch.linspace(-1, 1, 4 * 64 * 80).view(1, 4, 64, 80)
    assert family.decode_latents(latents).shape == (1, 3, 512, 640)
    assert len(shapes) > 1
    assert all(max(shape[2:]) <= 64 for shape in shapes)
    shapes.clear()
    family.decode_latents(latents[..., :64])
    assert len(shapes) == 1
    assert not family.vae.use_tiling
