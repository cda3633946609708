import json

import pytest
import torch
from PIL import Image

from modules.sampling.pictures import Settings, parameters, save_picture, to_picture
from onetrainer.config.sampling import Prompt

PROMPT = Prompt(prompt="ein Bär 🐻", negative="blurry", seed=7, width=512, height=256)
SETTINGS = Settings(PROMPT, steps=20, guidance=7.0, step=300, digest="abc")


def test_png_tells_how_it_was_made(tmp_path):
    path = tmp_path / "samples" / "step-000300.png"
    save_picture(torch.zeros(1, 3, 256, 512), path, SETTINGS)
    with Image.open(path) as picture:
        assert picture.size == (512, 256)
        assert picture.info["parameters"] == (
            "ein Bär 🐻\nNegative prompt: blurry\n"
            "Steps: 20, Sampler: DDIM, CFG scale: 7, Seed: 7, Size: 512x256"
        )
        own = json.loads(picture.info["onetrainer"])
    assert (own["step"], own["config"], own["seed"]) == (300, "abc", 7)


def test_prompt_without_negative_has_no_such_line():
    settings = Settings(Prompt(prompt="a cat"), steps=5, guidance=3.5, step=0, digest="")
    assert parameters(settings).splitlines()[1] == (
        "Steps: 5, Sampler: DDIM, CFG scale: 3.5, Seed: 42, Size: 512x512"
    )


def test_thumbnail_lies_beside_and_is_small(tmp_path):
    thumbnail = save_picture(torch.zeros(3, 256, 512), tmp_path / "a.png", SETTINGS)
    assert thumbnail == tmp_path / "a.thumb.jpg"
    with Image.open(thumbnail) as picture:
        assert picture.size == (256, 128)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "a.thumb.jpg"]


def test_pixels_are_rounded_and_clipped():
    pixels = torch.tensor([-9.0, -1.0, 0.0, 1.0, 9.0]).expand(3, 1, 5)
    levels = [to_picture(pixels).getpixel((x, 0))[0] for x in range(5)]
    assert levels == [0, 0, 128, 255, 255]


def test_same_settings_same_bytes(tmp_path):
    pixels = torch.rand(3, 64, 64, generator=torch.Generator().manual_seed(0))
    for name in ("a.png", "b.png"):
        save_picture(pixels, tmp_path / name, SETTINGS)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_picture_that_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "a.png").mkdir()
    with pytest.raises(OSError, match=r"a\.png"):
        save_picture(torch.zeros(3, 64, 64), tmp_path / "a.png", SETTINGS)
    assert not list(tmp_path.glob("*.part"))
