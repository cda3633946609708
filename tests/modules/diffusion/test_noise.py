"""What is mixed into noise: its statistics, its order, and the papers' coefficients."""

import math

import pytest
import torch

from modules import seeds
from modules.diffusion.draws import Draws
from modules.diffusion.noise import draw_noise, offset_growth, pyramid
from modules.diffusion.schedule import ScheduleSettings, scaled_linear
from onetrainer.config.objectives.noise import Noise
from tests.close import close

SHAPE = torch.Size((4, 16, 16))
DRAWS = Draws(seed=3, step=7, positions=tuple(range(256)))


def normal(purpose, shape=SHAPE):
    return torch.stack(
        [torch.randn(shape, generator=seeds.generator(3, purpose, 7, p)) for p in DRAWS.positions]
    )


def test_without_settings_it_is_plain_noise_and_all_of_it_is_wanted():
    noise = draw_noise(Noise(), DRAWS, shape=SHAPE)
    assert torch.equal(noise.added, normal("noise"))
    assert noise.target is noise.added


def test_everything_is_added_in_its_order():
    settings = Noise(offset=0.1, perturbation=0.2, input_perturbation=0.3)
    noise = draw_noise(settings, DRAWS, shape=SHAPE)
    wanted = normal("noise") + 0.1 * normal("offset-noise", (4, 1, 1))
    wanted = wanted + 0.2 * normal("perturbation-noise")
    close(noise.target, wanted)
    close(noise.added, wanted + 0.3 * normal("input-noise"))


def test_the_offset_grows_by_the_fraction_of_each_image():
    growth = torch.linspace(0, 1, len(DRAWS.positions))
    settings = Noise(offset=0.1)
    grown = draw_noise(settings, DRAWS, shape=SHAPE, offset_growth=growth).added
    expected = normal("noise") + growth.view(-1, 1, 1, 1) * 0.1 * normal("offset-noise", (4, 1, 1))
    close(grown, expected)


def papers_growth(alphas):
    """ψ_t and φ_t by the paper's recursion for γ_t, in float64.

    Source: Kutsuna 2024, arXiv:2412.03134, algorithm 1.
    """
    products = torch.cumprod(alphas, 0)
    before = torch.cat([torch.ones(1, dtype=torch.float64), products[:-1]])
    gammas = [1.0]
    total = gammas[0] / math.sqrt(before[0])
    totals = [total]
    for alpha, earlier in zip(alphas[1:].tolist(), before[1:].tolist(), strict=True):
        gamma = (1 - alpha) * math.sqrt(earlier) / (alpha * (1 - earlier)) * total
        total += gamma / math.sqrt(earlier)
        gammas.append(gamma)
        totals.append(total)
    # The mean of x_t moves by sqrt(ᾱ_t) · Σ γ_i / sqrt(ᾱ_{i-1}).
    psi = products.sqrt() * torch.tensor(totals, dtype=torch.float64) / (1 - products).sqrt()
    steps = alphas.sqrt() * torch.tensor(gammas, dtype=torch.float64)
    phi = steps * (1 - products).sqrt() / (1 - alphas)
    return psi / psi[-1], phi / psi[-1]


def test_the_generalised_offset_is_that_of_the_papers_recursion():
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2
    psi, phi = papers_growth(1 - betas)
    # What is seen and what is to be predicted agree: the balance that the recursion is made for.
    close(psi, phi, roundings=1000, each=True)  # each is a sum of a thousand
    close(offset_growth(scaled_linear(ScheduleSettings())), psi, each=True)


def test_the_generalised_offset_is_finite_with_zero_terminal_snr():
    growth = offset_growth(scaled_linear(ScheduleSettings(zero_terminal_snr=True)))
    assert growth[:-1].tolist() == [0.0] * 999
    assert growth[-1] == 1


def test_pyramid_noise_has_unit_deviation_and_neighbours_that_are_alike():
    plain = normal("noise")
    made = pyramid(plain, DRAWS.generators("pyramid-noise"), levels=4, discount=0.8)
    close(made.std(dim=(1, 2, 3)), torch.ones(256), each=True)

    def likeness(noise):
        return float((noise[..., 1:] * noise[..., :-1]).mean())

    # 245,760 pairs: plain noise has a mean product of 0 ± 0.002.
    assert abs(likeness(plain)) < 0.01
    assert likeness(made) > 0.2
    faint = pyramid(plain, DRAWS.generators("pyramid-noise"), levels=4, discount=1e-4)
    rescaled = plain / plain.std(dim=(1, 2, 3), keepdim=True)
    torch.testing.assert_close(faint, rescaled, rtol=0, atol=1e-3)


def test_a_pyramid_ends_where_there_is_a_single_number():
    deep, deeper = (
        pyramid(normal("noise"), DRAWS.generators("pyramid-noise"), levels=levels, discount=0.9)
        for levels in (4, 10)
    )
    assert torch.equal(deep, deeper)  # 16 is below 2⁴ times one number


@pytest.mark.parametrize(
    "settings",
    [
        Noise(offset=0.1, perturbation=0.1, input_perturbation=0.1),
        Noise(pyramid_levels=5, pyramid_discount=0.6, input_perturbation=0.2),
    ],
)
def test_a_images_noise_is_the_same_in_every_microbatch(settings):
    together = draw_noise(settings, Draws(3, 7, (0, 1, 2, 3)), shape=SHAPE)
    alone = [draw_noise(settings, Draws(3, 7, (place,)), shape=SHAPE) for place in range(4)]
    assert torch.equal(together.added, torch.cat([one.added for one in alone]))
    assert torch.equal(together.target, torch.cat([one.target for one in alone]))
    assert not torch.equal(together.added, draw_noise(settings, DRAWS, shape=SHAPE).added[4:8])
