"""Our sampler against diffusers' pipelines: same scheduler, starting noise and conditioning."""

from functools import cache
from itertools import product

import pytest
import torch
from diffusers import (
    DDIMScheduler,
    DPMSolverMultistepScheduler,
    EulerAncestralDiscreteScheduler,
    EulerDiscreteScheduler,
    LCMScheduler,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
    UniPCMultistepScheduler,
)
from diffusers.pipelines.stable_diffusion.pipeline_stable_diffusion import rescale_noise_cfg

from modules.sampling import sampler
from onetrainer.config.run.sampling import Prompt
from tests import tiny

# Of how diffusers reads a tensor; ours keeps it quiet, its own pipelines do not.
pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]

PROMPT = Prompt(prompt="a cat", negative="a dog", seed=11, width=128, height=64)
OTHERS = [
    PROMPT.model_copy(update={"prompt": "a very long cat " * 40, "seed": 12}),
    PROMPT.model_copy(update={"prompt": "a house", "negative": "", "seed": 13}),
]
# The pixels' range is 2, so that this is a 20,000th of it.
TOLERANCE = 1e-4

SDE = {"algorithm_type": "sde-dpmsolver++"}
KARRAS = {"use_karras_sigmas": True}
SCHEDULERS = {
    "ddim": (DDIMScheduler, {"set_alpha_to_one": False, "clip_sample": False}),
    "euler": (EulerDiscreteScheduler, {}),
    "euler_a": (EulerAncestralDiscreteScheduler, {}),
    "dpmpp_2m": (DPMSolverMultistepScheduler, {}),
    "dpmpp_2m_karras": (DPMSolverMultistepScheduler, KARRAS),
    "dpmpp_2m_sde": (DPMSolverMultistepScheduler, SDE),
    "dpmpp_2m_sde_karras": (DPMSolverMultistepScheduler, SDE | KARRAS),
    "unipc": (UniPCMultistepScheduler, {}),
    "lcm": (LCMScheduler, {}),
}
ANCESTRAL = ["euler_a", "dpmpp_2m_sde", "dpmpp_2m_sde_karras", "lcm"]
K_DIFFUSION = ["dpmpp_2m", "dpmpp_2m_sde"]  # timesteps that diffusers has no name for


@cache
def family(name="sd15", prediction="epsilon", zero=False):
    """One for all tests here, which leave it as it was."""
    return tiny.family(name, prediction=prediction, zero_terminal_snr=zero)


def reference_scheduler(name, prediction="epsilon", *, zero=False):
    kind, own = SCHEDULERS[name]
    spacing = {"timestep_spacing": "trailing"} if zero else {}
    return kind(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1,
        prediction_type=prediction, rescale_betas_zero_snr=zero, **own, **spacing,
    )  # fmt: skip


def reference(model, prompt, name="ddim", *, steps=5, guidance=3.0, zero=False, **options):
    """The same image by a pipeline of diffusers, (1, 3, H, W) in [-1, 1]."""
    scheduler = reference_scheduler(name, model.process.prediction, zero=zero)
    parts = {"vae": model.vae, "unet": model.unet, "scheduler": scheduler}
    encoders = dict.fromkeys(("text_encoder", "tokenizer"))
    with torch.no_grad():
        texts = model.encode_text([prompt.negative, prompt.prompt])
    given = {"negative_prompt_embeds": texts.hidden[:1], "prompt_embeds": texts.hidden[1:]}
    if model.name == "sdxl":
        encoders |= dict.fromkeys(("text_encoder_2", "tokenizer_2"))
        pipeline = StableDiffusionXLPipeline(**parts, **encoders, add_watermarker=False)
        pooled = texts.pooled
        given |= {"negative_pooled_prompt_embeds": pooled[:1], "pooled_prompt_embeds": pooled[1:]}
    else:
        encoders |= {"safety_checker": None, "feature_extractor": None}
        pipeline = StableDiffusionPipeline(**parts, **encoders, requires_safety_checker=False)
    pipeline.set_progress_bar_config(disable=True)
    if name in K_DIFFUSION and not zero:
        options["timesteps"] = torch.linspace(999, 0, steps).round().int().tolist()
    generator = torch.Generator().manual_seed(prompt.seed)
    noise = torch.randn(1, 4, prompt.height // 8, prompt.width // 8, generator=generator)
    pixels = pipeline(
        **given, latents=noise, generator=[generator], num_inference_steps=steps,
        guidance_scale=guidance, height=prompt.height, width=prompt.width, output_type="pt",
        **options,
    ).images  # fmt: skip
    return 2 * pixels - 1


def assert_near(ours, expected, tolerance=TOLERANCE):
    torch.testing.assert_close(ours, expected, atol=tolerance, rtol=0)


# Velocity with all of them by zero terminal SNR, and without it in long runs.
FEW = [*((name, "epsilon", False) for name in SCHEDULERS), ("euler_a", "v_prediction", False)]
ALL = [
    pytest.param(*case, marks=[] if case in FEW or case[2] else pytest.mark.long)
    for case in product(SCHEDULERS, ["epsilon", "v_prediction"], [False, True])
    if case[1:] != ("epsilon", True)
]


@pytest.mark.parametrize(("name", "prediction", "zero"), ALL)
def test_image_equals_the_one_by_diffusers_pipeline(name, prediction, zero):
    model = family(prediction=prediction, zero=zero)
    ours = sampler.sample(model, [PROMPT], steps=4, guidance=3.0, sampler=name)
    assert ours.shape == (1, 3, 64, 128)
    assert_near(ours, reference(model, PROMPT, name, steps=4, zero=zero))


@pytest.mark.parametrize(
    ("steps", "guidance"), [(1, 7.0), (7, 3.0), pytest.param(20, 5.0, marks=pytest.mark.long)]
)
def test_ddim_is_what_it_was_to_a_hundred_thousandth(steps, guidance):
    ours = sampler.sample(family(), [PROMPT], steps=steps, guidance=guidance)
    expected = reference(family(), PROMPT, steps=steps, guidance=guidance)
    assert_near(ours, expected, tolerance=1e-5)


def test_sdxl_gets_sizes_and_pooled_text_as_in_diffusers():
    model = family("sdxl")
    ours = sampler.sample(model, [PROMPT], steps=4, guidance=3.0, sampler="euler_a")
    assert_near(ours, reference(model, PROMPT, "euler_a", steps=4))


@pytest.mark.parametrize("name", ["sd2", "sd15-inpainting", "sdxl-inpainting"])
def test_every_family_samples(name):
    ours = sampler.sample(family(name), [PROMPT], steps=2, guidance=3.0)
    assert ours.isfinite().all()


def test_guidance_rescale_equals_diffusers():
    ours = sampler.sample(family(), [PROMPT], steps=3, guidance=9.0, guidance_rescale=0.3)
    expected = reference(family(), PROMPT, steps=3, guidance=9.0, guidance_rescale=0.3)
    assert_near(ours, expected)
    plain = sampler.sample(family(), [PROMPT], steps=3, guidance=9.0)
    assert (ours - plain).abs().max() > 1e-3


def test_rescale_is_diffusers_formula():
    guided, prompted = torch.randn(2, 3, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    ours = sampler.rescale(5 * guided, prompted, 0.7)
    assert_near(ours, rescale_noise_cfg(5 * guided, prompted, 0.7), tolerance=1e-5)


@pytest.mark.parametrize(
    ("base", "name"),
    [("sd15", "ddim"), ("sd15", "euler_a"), ("sd15", "dpmpp_2m_sde"), ("sdxl", "ddim")],
)
def test_an_image_does_not_depend_on_its_batch(base, name):
    model, options = family(base), {"steps": 3, "guidance": 3.0, "sampler": name}
    alone = sampler.sample(model, [PROMPT], **options)
    together = sampler.sample(model, [OTHERS[0], PROMPT, OTHERS[1]], **options)
    assert together.shape == (3, 3, 64, 128)
    assert_near(together[1:2], alone, tolerance=1e-5)


@pytest.mark.parametrize("name", ["ddim", "euler_a", "dpmpp_2m_sde"])
def test_same_seed_same_image_after_any_other(name):
    options = {"steps": 2, "guidance": 2.0, "sampler": name}
    first = sampler.sample(family(), [PROMPT], **options)
    torch.rand(1)
    assert torch.equal(first, sampler.sample(family(), [PROMPT], **options))
    other = sampler.sample(family(), [PROMPT.model_copy(update={"seed": 12})], **options)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", ANCESTRAL)
def test_ancestral_samplers_add_noise_of_the_images_own_seed(name, monkeypatch):
    options = {"steps": 3, "guidance": 2.0, "sampler": name}
    first = sampler.sample(family(), [PROMPT], **options)
    start = torch.randn(1, 4, 8, 16, generator=torch.Generator().manual_seed(PROMPT.seed))
    monkeypatch.setattr(sampler, "_noise", lambda _family, prompt, generator: start)
    # The same start, but the generator has not sampled it: all later noise differs.
    assert (sampler.sample(family(), [PROMPT], **options) - first).abs().max() > 1e-3


def test_guidance_of_one_asks_the_prompt_alone():
    other = PROMPT.model_copy(update={"negative": "something else"})
    images = [sampler.sample(family(), [p], steps=2, guidance=1.0) for p in (PROMPT, other)]
    assert torch.equal(*images)
    assert_near(images[0], reference(family(), PROMPT, steps=2, guidance=1.0))


def test_guidance_of_zero_asks_the_negative_prompt_alone():
    swapped = PROMPT.model_copy(update={"prompt": PROMPT.negative, "negative": ""})
    ours = sampler.sample(family(), [PROMPT], steps=2, guidance=0.0)
    assert_near(ours, sampler.sample(family(), [swapped], steps=2, guidance=1.0), tolerance=1e-5)


def test_both_halves_of_guidance_are_one_call():
    sizes = []
    hook = family().unet.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    try:
        sampler.sample(family(), [PROMPT, OTHERS[1]], steps=2, guidance=2.0)
    finally:
        hook.remove()
    assert sizes == [4, 4]


def test_sampling_leaves_modes_and_gradients_as_they_were():
    model = tiny.family()
    model.unet.train()
    model.unet.mid_block.eval()
    image = sampler.sample(model, [PROMPT], steps=1, guidance=2.0)
    assert not image.requires_grad
    assert model.unet.training
    assert not model.unet.mid_block.training
    assert not model.vae.training


def test_steps_are_reported_before_they_are_made_and_can_end_it():
    reported = []

    def on_step(number):
        reported.append(number)
        if number == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        sampler.sample(family(), [PROMPT], steps=5, guidance=2.0, on_step=on_step)
    assert reported == [0, 1, 2]


def test_images_of_two_sizes_are_no_batch():
    with pytest.raises(ValueError, match="one size"):
        sampler.sample(
            family(), [PROMPT, PROMPT.model_copy(update={"width": 64})], steps=1, guidance=1.0
        )
