"""Tiny models that compute in float64 throughout, for comparisons beyond float32's rounding."""

from dataclasses import fields

import torch
from torch import nn

from modules.diffusion.schedule import ScheduleSettings
from modules.diffusion.schedulers import ddpm_scheduler
from modules.families.stable_diffusion import StableDiffusion
from modules.interfaces import Conditioning
from tests import tiny
from tests.close import close


class Exact(StableDiffusion):
    """A family whose UNet and VAE are float64 and whose predictions are not rounded after."""

    def predict(self, noisy, timesteps, conditioning, *, time_ids, masked=None):
        conditioning = conditioning.to(noisy.device, torch.float64)
        return self.unet(
            noisy.double(),
            timesteps,
            encoder_hidden_states=conditioning.hidden,
            added_cond_kwargs=self._added(conditioning, time_ids),
        ).sample

    def decode_latents(self, latents):
        return self.vae.decode(latents.double() / self._scale).sample.clamp(-1, 1)


def family(name="sd15", **settings):
    """A tiny family, frozen, in float64."""
    made = tiny.family(name, **settings)
    for part in (made.unet, made.vae):
        nn.Module.to(part, torch.float64)
    return Exact(**{field.name: getattr(made, field.name) for field in fields(made)})


def conditioning(name, count, *, seed=0, tokens=4):
    """Some text's, in float64."""
    generator = torch.Generator().manual_seed(seed)
    width = sum(tiny.WIDTHS[name])
    pooled = torch.randn(count, tiny.PROJECTION, generator=generator, dtype=torch.float64)
    hidden = torch.randn(count, tokens, width, generator=generator, dtype=torch.float64)
    return Conditioning(hidden, pooled if name == "sdxl" else None)


def scheduler(settings: ScheduleSettings, prediction, *, steps):
    """The sampler's DDIM of diffusers with its levels in float64.

    Its float32 levels round 1 - ᾱ to four digits at the first timesteps.
    """
    made = ddpm_scheduler("ddim", settings, prediction, steps=steps)
    ends = settings.beta_start**0.5, settings.beta_end**0.5
    betas = torch.linspace(*ends, settings.steps, dtype=torch.float64) ** 2
    levels = torch.cumprod(1 - betas, 0)
    if settings.zero_terminal_snr:
        signal = levels.sqrt()
        levels = ((signal - signal[-1]) * signal[0] / (signal[0] - signal[-1])) ** 2
    close(levels.float(), made.alphas_cumprod)
    made.alphas_cumprod, made.final_alpha_cumprod = levels, levels[0]
    return made
