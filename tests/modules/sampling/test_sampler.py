import pytest
import torch
from diffusers import DDIMScheduler

from modules.diffusion.schedule import scaled_linear
from modules.families.components import read_config
from modules.families.sd15 import CONFIGS
from modules.sampling import sampler
from onetrainer.config.sampling import Prompt
from tests import tiny

PROMPT = Prompt(prompt="a cat", negative="a dog", seed=11, width=128, height=64)


@pytest.fixture(scope="module")
def family():
    """One for all the tests here, which leave it as it was."""
    return tiny.family()


def scheduler_for(prediction: str = "epsilon", steps: int = 7) -> DDIMScheduler:
    config = dict(read_config(CONFIGS / "scheduler" / "scheduler_config.json"))
    scheduler = DDIMScheduler.from_config(config | {"prediction_type": prediction})
    scheduler.set_timesteps(steps)
    return scheduler


@torch.no_grad()
def reference(family, prompt: Prompt, *, steps: int, guidance: float) -> torch.Tensor:
    """The same picture by diffusers' scheduler, prompt and negative prompt one after the other."""
    scheduler = scheduler_for(steps=steps)
    latents = torch.randn(
        1, 4, prompt.height // 8, prompt.width // 8,
        generator=torch.Generator().manual_seed(prompt.seed),
    )  # fmt: skip
    for timestep in scheduler.timesteps:
        both = [
            family.predict(latents, timestep[None], family.encode_text([text]))
            for text in (prompt.negative, prompt.prompt)
        ]
        noise = both[0] + guidance * (both[1] - both[0])
        latents = scheduler.step(noise, timestep, latents, eta=0.0).prev_sample
    return family.decode_latents(latents)


@pytest.mark.parametrize(("steps", "guidance"), [(1, 7.0), (7, 3.0), (5, 1.0), (3, 0.0)])
def test_picture_equals_the_one_by_diffusers_scheduler(family, steps, guidance):
    ours = sampler.sample(family, PROMPT, steps=steps, guidance=guidance)
    expected = reference(family, PROMPT, steps=steps, guidance=guidance)
    assert ours.shape == (1, 3, 64, 128)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("steps", [1, 3, 20, 50, 999])
def test_timesteps_are_diffusers_timesteps(steps):
    ours = [timestep for timestep, _ in sampler.ddim_timesteps(1000, steps)]
    assert ours == scheduler_for(steps=steps).timesteps.tolist()


def test_a_thousand_steps_stay_inside_the_schedule():
    pairs = sampler.ddim_timesteps(1000, 1000)
    assert len(pairs) == 1000
    assert {0 <= timestep < 1000 for timestep, _ in pairs} == {True}


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
def test_every_step_equals_diffusers_step(prediction):
    scheduler, schedule = scheduler_for(prediction), scaled_linear()
    generator = torch.Generator().manual_seed(0)
    latents, predicted = torch.randn(2, 1, 4, 8, 8, generator=generator)
    for timestep, previous in sampler.ddim_timesteps(1000, 7):
        ours = sampler.ddim_step(schedule, prediction, latents, predicted, timestep, previous)
        theirs = scheduler.step(predicted, timestep, latents, eta=0.0).prev_sample
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_same_seed_same_picture_whatever_was_drawn_before(family):
    first = sampler.sample(family, PROMPT, steps=2, guidance=2.0)
    torch.rand(1)
    again = sampler.sample(family, PROMPT, steps=2, guidance=2.0)
    other = sampler.sample(family, PROMPT.model_copy(update={"seed": 12}), steps=2, guidance=2.0)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_sampling_leaves_modes_and_gradients_as_they_were(family):
    family.unet.train()
    family.unet.mid_block.eval()
    picture = sampler.sample(family, PROMPT, steps=1, guidance=2.0)
    assert not picture.requires_grad
    assert family.unet.training
    assert not family.unet.mid_block.training
    assert not family.vae.training
    family.unet.eval()


def test_long_prompt_beside_a_short_negative_one(family):
    prompt = PROMPT.model_copy(update={"prompt": "a very long cat " * 40})
    assert sampler.sample(family, prompt, steps=1, guidance=2.0).isfinite().all()
