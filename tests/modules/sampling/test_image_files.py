import json
from typing import get_args

import pytest
import torch
from PIL import Image

from modules.sampling.image_files import (
    SAMPLER_NAMES,
    Settings,
    UsedLora,
    parameters,
    save_image,
    to_image,
    write_png,
)
from onetrainer.config.run.sampling import Prompt, SamplerName
from tests.each import each

PROMPT = Prompt(prompt="ein Bär 🐻", negative="blurry", seed=7, width=512, height=256)
SETTINGS = Settings(PROMPT, steps=20, guidance=7.0, step=300, digest="abc")


def test_png_says_how_it_was_made(tmp_path):
    path = tmp_path / "samples" / "step-000300.png"
    save_image(torch.zeros(1, 3, 256, 512), path, SETTINGS)
    with Image.open(path) as image:
        assert image.size == (512, 256)
        assert image.info["parameters"] == (
            "ein Bär 🐻\nNegative prompt: blurry\n"
            "Steps: 20, Sampler: DDIM, CFG scale: 7, Seed: 7, Size: 512x256, RNG: CPU"
        )
        own = json.loads(image.info["onetrainer"])
    assert (own["step"], own["config"], own["seed"]) == (300, "abc", 7)


def test_prompt_without_negative_has_no_such_line():
    settings = Settings(Prompt(prompt="a cat"), steps=5, guidance=3.5, step=0, digest="")
    assert parameters(settings).splitlines()[1] == (
        "Steps: 5, Sampler: DDIM, CFG scale: 3.5, Seed: 42, Size: 512x512, RNG: CPU"
    )


def last_line(**changes):
    return parameters(Settings(PROMPT, steps=20, guidance=7.0, **changes)).splitlines()[-1]


@each(
    ("sampler", "words"),
    [
        ("euler_a", "Sampler: Euler a, CFG"),
        ("dpmpp_2m_karras", "Sampler: DPM++ 2M, Schedule type: Karras, CFG"),
        ("dpmpp_2m_sde", "Sampler: DPM++ 2M SDE, Schedule type: Uniform, CFG"),
    ],
)
def test_samplers_have_the_names_that_other_programs_know(sampler, words):
    assert words in last_line(sampler=sampler)


def test_every_sampler_has_a_name():
    assert set(SAMPLER_NAMES) == set(get_args(SamplerName))


def test_model_and_what_was_changed_on_it_are_reported():
    line = last_line(model="base, v2", clip_skip=2, guidance_rescale=0.7)
    assert line.endswith('Model: "base, v2", Clip skip: 2, CFG rescale: 0.7, RNG: CPU')


def test_other_vae_and_embeddings_are_reported(tmp_path):
    line = last_line(model="base", vae="better", embeddings=("cat", "dog"))
    assert line.endswith('Model: base, VAE: better, Embeddings: "cat, dog", RNG: CPU')
    assert "VAE" not in last_line(model="base")
    settings = Settings(PROMPT, steps=20, guidance=7.0, vae="better", embeddings=("cat",))
    write_png(to_image(torch.zeros(3, 8, 8)), tmp_path / "a.png", settings)
    with Image.open(tmp_path / "a.png") as image:
        own = json.loads(image.info["onetrainer"])
    assert (own["vae"], own["embeddings"]) == ("better", ["cat"])


def test_loras_stand_behind_the_prompt():
    loras = (UsedLora("style", 0.8), UsedLora("face", 1.0))
    text = parameters(Settings(PROMPT, steps=20, guidance=7.0, loras=loras))
    assert text.startswith("ein Bär 🐻 <lora:style:0.8> <lora:face:1>\nNegative")


def test_image_sampled_outside_training_has_no_step(tmp_path):
    settings = Settings(PROMPT, steps=20, guidance=7.0, loras=(UsedLora("style", 0.8),))
    write_png(to_image(torch.zeros(3, 8, 8)), tmp_path / "a.png", settings)
    with Image.open(tmp_path / "a.png") as image:
        own = json.loads(image.info["onetrainer"])
    assert not {"step", "config", "model"} & set(own)
    assert own["loras"] == [{"name": "style", "strength": 0.8}]
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_the_thumbnail_lies_next_to_it_and_is_small(tmp_path):
    thumbnail = save_image(torch.zeros(3, 256, 512), tmp_path / "a.png", SETTINGS)
    assert thumbnail == tmp_path / "a.thumb.jpg"
    with Image.open(thumbnail) as image:
        assert image.size == (256, 128)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "a.thumb.jpg"]


def test_pixels_are_rounded_and_clipped():
    pixels = torch.tensor([-9.0, -1.0, 0.0, 1.0, 9.0]).expand(3, 1, 5)
    levels = [to_image(pixels).getpixel((x, 0))[0] for x in range(5)]
    assert levels == [0, 0, 128, 255, 255]


def test_same_settings_same_bytes(tmp_path):
    pixels = torch.rand(3, 64, 64, generator=torch.Generator().manual_seed(0))
    for name in ("a.png", "b.png"):
        save_image(pixels, tmp_path / name, SETTINGS)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_image_that_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "a.png").mkdir()
    with pytest.raises(OSError, match=r"a\.png"):
        save_image(torch.zeros(3, 64, 64), tmp_path / "a.png", SETTINGS)
    assert not list(tmp_path.glob("*.part"))
