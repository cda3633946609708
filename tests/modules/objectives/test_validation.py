"""What objectives measure on validation images, against formulas over diffusers' own parts."""

from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from diffusers.schedulers.scheduling_ddpm import DDPMScheduler

from modules.interfaces import Probe
from modules.objectives.denoising import Denoising
from modules.objectives.reconstruction import Reconstruction
from onetrainer.config.objectives.denoising import Denoising as Section
from onetrainer.config.objectives.reconstruction import Reconstruction as ReconstructionSection
from tests import tiny
from tests.batches import batch_of
from tests.close import close

LEVELS = (Fraction(1, 8), Fraction(3, 8), Fraction(7, 8))
TIMESTEPS = torch.tensor([125, 375, 875])


@pytest.fixture(scope="module")
def family():
    return tiny.family()


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def probe():
    return Probe(LEVELS, normal(3, 4, 8, 8, seed=1))


def validation(family, batch, made=None, **section):
    objective = Denoising(family, section=Section.model_validate(section), device=tiny.CPU)
    with torch.no_grad():
        return objective.validation(batch, made or probe())


def predicted(family, batch, noisy):
    hidden = batch.conditioning.hidden.expand(3, -1, -1)
    with torch.no_grad():
        return family.unet(noisy, TIMESTEPS, hidden).sample


def scheduler(prediction="epsilon"):
    return DDPMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        clip_sample=False,
        prediction_type=prediction,
    )


def squares(family, batch):
    """The squared errors, of noise that was put on the mean of the latent's posterior."""
    latents = batch.moments.mean.expand(3, -1, -1, -1)
    noise = probe().noise
    noisy = scheduler().add_noise(latents, noise, TIMESTEPS)
    return (predicted(family, batch, noisy) - noise) ** 2


def test_it_is_the_mean_squared_error_at_each_level(family):
    batch = batch_of(family, (0,))
    expected = squares(family, batch).mean(dim=(1, 2, 3))
    close(validation(family, batch), expected)


def test_of_velocity_it_is_the_error_of_the_velocity():
    family = tiny.family("sd2", prediction="v_prediction")
    batch = batch_of(family, (0,))
    latents, noise = batch.moments.mean.expand(3, -1, -1, -1), probe().noise
    made = scheduler("v_prediction")
    wanted = made.get_velocity(latents, noise, TIMESTEPS)
    found = predicted(family, batch, made.add_noise(latents, noise, TIMESTEPS))
    expected = ((found - wanted) ** 2).mean(dim=(1, 2, 3))
    close(validation(family, batch), expected)


def test_how_training_measures_does_not_matter(family):
    batch = batch_of(family, (0,))
    odd = {
        "loss": {"mse": 0.1, "mae": 2.0, "huber": 0.5},
        "weighting": {"kind": "min_snr"},
        "timesteps": {"kind": "logit_normal"},
        "noise": {"offset": 0.3, "input_perturbation": 0.2},
    }
    assert torch.equal(validation(family, batch, **odd), validation(family, batch))


@pytest.mark.parametrize("outside", [0.0, 0.25])
def test_a_mask_counts_and_its_area_does_not(family, outside):
    mask = torch.zeros(1, 1, 8, 8)
    mask[..., :3] = 1
    batch = batch_of(family, (0,))
    weight = mask + (1 - mask) * outside
    errors = squares(family, batch)
    expected = (errors * weight).sum(dim=(1, 2, 3)) / (4 * weight.sum())
    found = validation(family, replace(batch, mask=mask), mask={"unmasked_weight": outside})
    close(found, expected)


def test_captions_that_are_not_encoded_are_encoded_now(family):
    batch = batch_of(family, (0,))
    uncached = validation(family, replace(batch, conditioning=None))
    close(uncached, validation(family, batch))


FEW = ("sd2", "sdxl-inpainting")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in FEW else pytest.mark.long) for n in tiny.FAMILIES],
)
def test_every_family_is_measured(name):
    family = tiny.family(name)
    found = validation(family, batch_of(family, (0,)))
    assert found.shape == (3,)
    assert bool((found > 0.1).all())


def test_a_decoder_is_measured_by_what_it_makes_of_the_mean(family):
    section = ReconstructionSection(l1=1.0, l2=0.5)
    objective = Reconstruction(family, section, device=tiny.CPU)
    pixels = normal(1, 3, 64, 64, seed=2).clamp(-1, 1)
    batch = replace(batch_of(family, (0,)), pixels=pixels)
    with torch.no_grad():
        difference = family.decode_unclamped(batch.moments.mean) - pixels
        found = objective.validation(batch, Probe(LEVELS[:1], normal(1, 4, 8, 8)))
    expected = difference.abs().mean() + 0.5 * (difference**2).mean()
    close(found, expected[None])


def test_a_decoder_is_not_measured_without_images(family):
    objective = Reconstruction(family, ReconstructionSection(), device=tiny.CPU)
    with pytest.raises(ValueError, match="pixels"):
        objective.validation(batch_of(family, (0,)), probe())
