"""Rewards without a network as the config names them, and reference images."""

import numpy as np
import torch
from PIL import Image

from modules.rewards import measures
from modules.rewards.jpeg import compressibility, jpeg_size
from modules.rewards.load import make_rewards
from onetrainer.config.rewards.reward import Reward as Section
from tests.each import each

CPU = torch.device("cpu")
PROMPTS = ("a cat", "a red house by the sea")


def reward(kind, **settings):
    section = Section(reward=kind, **settings)
    return make_rewards([section], device=CPU, dtype=torch.float32, offline=True, report=print)[0]


def images(count=2, height=40, width=32):
    return torch.rand(count, 3, height, width, generator=torch.Generator().manual_seed(0))


def test_likeness_by_color_is_nothing_for_the_same_and_grows_with_the_distance(tmp_path):
    Image.new("RGB", (48, 40), (51, 102, 153)).save(tmp_path / "a.png")
    likeness = reward("reference", folder=str(tmp_path))
    same = torch.tensor([51, 102, 153])[:, None, None].expand(3, 40, 48) / 255
    shown = torch.stack([same, same + 0.2, same + 0.4]).requires_grad_()
    scores = likeness.score(shown, ["", "", ""])
    # Flat ones: layouts are 0.2 apart, and so is the mean color, which is half of what is compared.
    wanted = torch.tensor([0.0, 0.2, 0.4]) * -(0.5 + 0.5 * 0.5**0.5)
    torch.testing.assert_close(scores, wanted, rtol=0, atol=1e-3)
    scores.sum().backward()
    assert shown.grad.isfinite().all()


@each("turn", range(1, 9))
def test_reference_images_stand_upright(tmp_path, turn):
    from PIL import ImageOps

    from modules.rewards.reference import reference_images

    pixels = (images(1, 12, 9)[0] * 255).to(torch.uint8).permute(1, 2, 0).numpy()
    exif = Image.Exif()
    exif[0x0112] = turn
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    with Image.open(tmp_path / "a.png") as image:
        wanted = np.asarray(ImageOps.exif_transpose(image))
    (read,) = reference_images(tmp_path)
    assert np.array_equal((read * 255).round().permute(1, 2, 0).numpy(), wanted)


@each("kind", ["brightness", "contrast", "saturation", "sharpness", "symmetry", "color"])
def test_rewards_without_a_network_are_the_formulas_of_their_name(kind):
    shown = images()
    formula = getattr(measures, kind)
    wanted = formula(shown, "blue") if kind == "color" else formula(shown)
    assert torch.equal(reward(kind, color="blue").score(shown, PROMPTS), wanted)


def test_only_the_true_file_size_has_no_gradient():
    shown = images()
    for kind, formula in (("compressibility", compressibility), ("jpeg_size", jpeg_size)):
        made = reward(kind, quality=40)
        assert torch.equal(made.score(shown, PROMPTS), formula(shown, 40))
        assert made.has_gradient is (kind == "compressibility")
