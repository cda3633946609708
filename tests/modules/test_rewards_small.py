"""Rewards without a network, and drift of images: closed forms, numpy, differences."""

from functools import partial

import numpy
import pytest
import torch

from modules.rewards import measures
from modules.rewards.jpeg import smooth_bits
from modules.rewards.measures import Measure, Reward
from tests import pretend
from tests.close import FLOAT64, close, near
from tests.each import each

COLORS = ("warm", "cool", "red", "green", "blue")
PLAIN = {
    "brightness": measures.brightness,
    "contrast": measures.contrast,
    "saturation": measures.saturation,
    "sharpness": measures.sharpness,
    "symmetry": measures.symmetry,
}
ALL = PLAIN | {name: partial(measures.color, name=name) for name in COLORS}
# Roots are rounded off below 1e-3, and symmetry counts from a variance of 1e-4 on.
SMOOTHED = 2e-3


def noise(*shape, seed=0, dtype=torch.float32):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def flat(*color, side=8):
    return torch.tensor(color)[None, :, None, None].expand(1, 3, side, side).clone()


def halves(left, right):
    return torch.cat([flat(*left), flat(*right)], dim=3)


RED, GREEN, BLUE, YELLOW, CYAN = (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1)
BLACK, GRAY, WHITE = (0, 0, 0), (0.5, 0.5, 0.5), (1, 1, 1)


@each(
    ("name", "scores"),
    {
        "warm": {RED: 1, YELLOW: 1, BLUE: -1, CYAN: -1, GREEN: 0, GRAY: 0, WHITE: 0},
        "cool": {RED: -1, YELLOW: -1, BLUE: 1, CYAN: 1, GRAY: 0},
        "red": {RED: 1, GREEN: -0.5, YELLOW: 0.5, GRAY: 0},
        "green": {GREEN: 1, BLUE: -0.5, YELLOW: 0.5, GRAY: 0},
        "blue": {BLUE: 1, RED: -0.5, CYAN: 0.5, GRAY: 0},
        "brightness": {BLACK: 0, GRAY: 0.5, WHITE: 1, GREEN: 0.587},
        "contrast": {BLACK: 0, WHITE: 0, RED: 0},
        "saturation": {BLACK: 0, WHITE: 0, RED: 1, YELLOW: 1, BLUE: 1, CYAN: 1},
        "sharpness": {GRAY: 0, RED: 0},
        "symmetry": {BLACK: 1, WHITE: 1, CYAN: 1},
    }.items(),
)
def test_flat_images_score_by_their_color_alone(name, scores):
    for color, expected in scores.items():
        assert float(ALL[name](flat(*map(float, color)))) == pytest.approx(expected, abs=SMOOTHED)


def test_half_black_and_half_white_score_as_their_closed_forms_say():
    sides = halves((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))  # 16 pixels across: one slope of 1 in 15
    expected = {"brightness": 0.5, "contrast": 0.5, "sharpness": 15**-0.5, "symmetry": -1}
    for name, wanted in expected.items():
        assert float(ALL[name](sides)) == pytest.approx(wanted, abs=SMOOTHED), name


def test_measures_equal_numpys():
    shown = noise(3, 3, 10, 14, dtype=torch.float64)
    light = 0.299 * shown[:, 0] + 0.587 * shown[:, 1] + 0.114 * shown[:, 2]
    for image, gray, place in zip(shown.numpy(), light.numpy(), range(3), strict=True):
        apart = numpy.linalg.norm(image - image.mean(axis=0), axis=0)
        mirrored = numpy.stack([channel - channel.mean() for channel in image])
        slopes = (numpy.diff(gray, axis=0) ** 2).mean() + (numpy.diff(gray, axis=1) ** 2).mean()
        expected = {
            "brightness": gray.mean(),
            "contrast": gray.std(),
            "saturation": apart.mean() * 1.5**0.5,
            "sharpness": slopes**0.5,
            "symmetry": numpy.corrcoef(mirrored.ravel(), mirrored[:, :, ::-1].ravel())[0, 1],
        }
        for name, wanted in expected.items():
            assert float(ALL[name](shown)[place]) == pytest.approx(wanted, abs=SMOOTHED), name


@each("name", ALL)
def test_gradient_equals_differences_of_the_values(name):
    shown = noise(2, 3, 4, 5, seed=1, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(ALL[name], shown)


@each("name", ALL)
@each("color", [BLACK, GRAY, WHITE, (0.3, 0.1, 0.9)])
def test_flat_images_have_finite_gradients(name, color):
    shown = flat(*map(float, color)).requires_grad_()
    score = ALL[name](shown)
    score.sum().backward()
    assert score.isfinite().all()
    assert shown.grad.isfinite().all()
    assert shown.grad.abs().max() < 10


@each("name", sorted(ALL.keys() - {"sharpness"}))
def test_size_of_the_image_does_not_matter(name):
    small = noise(2, 3, 8, 8)
    large = small.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
    close(ALL[name](small), ALL[name](large))


@each("name", ALL)
def test_each_image_scores_alone_as_among_others(name):
    shown = noise(3, 3, 9, 7)
    alone = torch.cat([ALL[name](image[None]) for image in shown])
    close(ALL[name](shown), alone)


def test_ramp_is_less_sharp_than_a_step_of_the_same_height():
    step = torch.tensor([0.0] * 8 + [1.0] * 8).expand(1, 3, 16, 16)
    ramp = torch.linspace(0, 1, 16).expand(1, 3, 16, 16)
    assert float(measures.sharpness(step)) > 3 * float(measures.sharpness(ramp))


def test_paler_image_is_no_more_symmetric():
    shown = noise(1, 3, 16, 16)
    pale = 0.5 + 0.3 * (shown - 0.5)
    difference = measures.symmetry(shown) - measures.symmetry(pale)
    assert float(difference.abs()) < 0.01
    mirrored = torch.cat([shown, shown.flip(-1)], dim=3)
    assert float(measures.symmetry(mirrored)) == 1


def test_measure_is_a_reward_that_needs_no_prompt_and_has_a_gradient():
    reward: Reward = Measure(measures.brightness)
    shown = noise(2, 3, 8, 8)
    assert torch.equal(reward.score(shown, ["a", "b"]), measures.brightness(shown))
    assert reward.has_gradient
    assert not list(reward.extra_modules().parameters())


@each("name", [*ALL, "diversity", "compressibility"])
def test_the_gpu_is_not_waited_for(name):
    others = {"diversity": measures.diversity, "compressibility": partial(smooth_bits, quality=80)}
    with pretend.accelerator() as gpu:
        shown = noise(2, 3, 8, 8).to("cuda").requires_grad_()
        before = len(gpu.syncs)  # of the copy to the GPU
        (ALL | others)[name](shown).sum().backward()
        assert len(gpu.syncs) == before


def test_diversity_is_the_mean_difference_of_pairs():
    black, gray, white = (flat(*map(float, color), side=64) for color in (BLACK, GRAY, WHITE))
    assert float(measures.diversity(torch.cat([black, white]))) == near(1)
    three = measures.diversity(torch.cat([gray, white, black]))
    assert float(three) == near((0.5 + 0.5 + 1) / 3)
    assert float(measures.diversity(torch.cat([gray, gray, gray]))) == 0
    assert float(measures.diversity(white)) == 0


def test_diversity_equals_numpys_and_leaves_out_what_is_small():
    coarse = noise(4, 3, 32, 32, dtype=torch.float64)
    pairs = [
        numpy.sqrt(((coarse[one] - coarse[other]).numpy() ** 2).mean())
        for one in range(4)
        for other in range(one)
    ]
    fine = coarse.repeat_interleave(4, dim=2).repeat_interleave(4, dim=3)
    assert float(measures.diversity(fine)) == near(numpy.mean(pairs), eps=FLOAT64)
    # Noise of single pixels, 16 in each area: a quarter of it is left.
    fine_noise = measures.diversity(noise(4, 3, 128, 128))
    assert float(fine_noise) == pytest.approx(numpy.mean(pairs) / 4, rel=0.05)
