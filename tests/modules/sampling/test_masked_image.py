"""Samples of inpainting models against diffusers' pipeline, with the same image and mask."""

import numpy
import pytest
import torch
from diffusers import StableDiffusionInpaintPipeline
from PIL import Image, ImageDraw

from modules.sampling import sampler
from modules.sampling.masked_image import masked_input
from onetrainer.config.run.sampling import Prompt
from onetrainer.images.image_file import ImageError
from tests import tiny
from tests.modules.sampling.test_sampler import TOLERANCE, reference_scheduler

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture
def prompt(tmp_path):
    """An image of another shape than the sample, and a mask of its left half."""
    image = Image.radial_gradient("L").resize((256, 128)).convert("RGB")
    image.save(tmp_path / "image.png")
    mask = Image.new("L", (128, 64))
    ImageDraw.Draw(mask).rectangle((0, 0, 63, 63), fill=255)
    mask.save(tmp_path / "mask.png")
    return Prompt(
        **{"prompt": "a cat", "seed": 3, "width": 128, "height": 64},
        **{name: str(tmp_path / f"{name}.png") for name in ("image", "mask")},
    )


def test_an_inpainting_model_paints_in_the_image_as_diffusers_does(prompt):
    family = tiny.family("sd15-inpainting")
    found = sampler.sample(family, [prompt], steps=3, guidance=3.0)
    with Image.open(prompt.image) as whole, Image.open(prompt.mask) as opened:
        image, mask = whole.resize((128, 64), Image.Resampling.LANCZOS), opened.copy()
    with torch.no_grad():
        texts = family.encode_text(["", prompt.prompt]).hidden
        pixels = torch.from_numpy(numpy.array(image))[None].permute(0, 3, 1, 2)
        pixels = (pixels / 127.5 - 1) * (torch.arange(128) >= 64)
        mean = family.vae.encode(pixels).latent_dist.mean * family.vae.config.scaling_factor
    pipeline = StableDiffusionInpaintPipeline(
        family.vae, None, None, family.unet, reference_scheduler("ddim"), None, None,
        requires_safety_checker=False,
    )  # fmt: skip
    pipeline.set_progress_bar_config(disable=True)
    noise = torch.randn(1, 4, 8, 16, generator=torch.Generator().manual_seed(prompt.seed))
    expected = pipeline(
        image=image, mask_image=mask, masked_image_latents=mean, strength=1.0, latents=noise,
        negative_prompt_embeds=texts[:1], prompt_embeds=texts[1:], num_inference_steps=3,
        guidance_scale=3.0, width=128, height=64, output_type="pt",
    ).images  # fmt: skip
    torch.testing.assert_close(found, 2 * expected - 1, atol=TOLERANCE, rtol=0)
    everything = prompt.model_copy(update={"image": "", "mask": ""})
    assert (found - sampler.sample(family, [everything], steps=3, guidance=3.0)).abs().max() > 0.01


def test_only_models_that_see_a_masked_image_are_given_one(prompt):
    assert masked_input(tiny.family(), prompt) is None
    with pytest.raises(ImageError, match=r"none\.png: no such file"):
        masked_input(
            tiny.family("sd15-inpainting"), prompt.model_copy(update={"image": "none.png"})
        )
