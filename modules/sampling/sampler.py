"""Pictures out of a model, for people to look at: deterministic DDIM with guidance.

Source: Song et al. 2020, arXiv:2010.02502, equation 12 with eta 0; Ho & Salimans 2022,
arXiv:2207.12598 for guidance. Timesteps as SD 1.5's scheduler config spaces them: "leading", offset
by one.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn

from modules.diffusion.schedule import NoiseSchedule
from modules.diffusion.targets import Prediction
from modules.interfaces import Conditioning, Family
from onetrainer.config.sampling import Prompt

LATENT_CHANNELS = 4
LATENT_SCALE = 8  # pixels a latent's side
STEPS_OFFSET = 1


@torch.no_grad()
def sample(
    family: Family,
    prompt: Prompt,
    *,
    steps: int,
    guidance: float,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
    on_step: Callable[[int], None] = lambda _: None,
) -> Tensor:
    """One picture, (1, 3, height, width), float32 in [-1, 1], on the VAE's device.

    guidance: how far to go from the negative prompt toward the prompt; 1 asks the prompt alone.
    autocast: makes the context of every call of the text encoder and the UNet. on_step: told
    before each step, from 0; whatever it raises ends the sampling.
    The family is in evaluation mode meanwhile; adapters on it are their method's to switch.
    """
    with _evaluation(family.unet, family.vae, *family.text_encoders.values()):
        with autocast():
            texts = [prompt.prompt] if guidance == 1 else [prompt.negative, prompt.prompt]
            conditioning = family.encode_text(texts)
        latents = starting_noise(prompt).to(family.schedule.signal.device)
        for number, (timestep, previous) in enumerate(ddim_timesteps(family.schedule.steps, steps)):
            on_step(number)
            with autocast():
                predicted = _guided(family, latents, timestep, conditioning, guidance)
            latents = ddim_step(
                family.schedule, family.prediction, latents, predicted, timestep, previous
            )
        return family.decode_latents(latents)


def starting_noise(prompt: Prompt) -> Tensor:
    """(1, 4, height / 8, width / 8), float32 on the CPU, the same on every device."""
    shape = (1, LATENT_CHANNELS, prompt.height // LATENT_SCALE, prompt.width // LATENT_SCALE)
    return torch.randn(shape, generator=torch.Generator().manual_seed(prompt.seed))


def ddim_timesteps(training_steps: int, steps: int) -> list[tuple[int, int]]:
    """From most to least noisy: each timestep and the one that follows it.

    The last one is followed by a timestep below 0, which stands for the end.
    """
    stride = training_steps // steps
    timesteps = [
        min(index * stride + STEPS_OFFSET, training_steps - 1) for index in reversed(range(steps))
    ]
    return [(timestep, timestep - stride) for timestep in timesteps]


def ddim_step(
    schedule: NoiseSchedule,
    prediction: Prediction,
    latents: Tensor,
    predicted: Tensor,
    timestep: int,
    previous: int,
) -> Tensor:
    """The latents at the `previous`, less noisy timestep.

    latents, predicted: (B, 4, h, w), float32.
    The end keeps the noise of timestep 0, as SD 1.5's scheduler config says (set_alpha_to_one is
    false).
    """
    signal, spread = schedule.signal[timestep], schedule.noise[timestep]
    match prediction:
        case "epsilon":
            noise = predicted
            clean = (latents - spread * noise) / signal
        case "v_prediction":
            clean = signal * latents - spread * predicted
            noise = signal * predicted + spread * latents
    following = max(previous, 0)
    return schedule.signal[following] * clean + schedule.noise[following] * noise


def _guided(
    family: Family, latents: Tensor, timestep: int, conditioning: Conditioning, guidance: float
) -> Tensor:
    """The prediction for one picture, (1, 4, h, w); with and without prompt in one batch."""
    count = len(conditioning.hidden)
    timesteps = torch.full((count,), timestep, device=latents.device)
    predicted = family.predict(latents.expand(count, -1, -1, -1), timesteps, conditioning)
    if count == 1:
        return predicted
    without, with_prompt = predicted.chunk(2)
    return without + guidance * (with_prompt - without)


@contextmanager
def _evaluation(*parts: nn.Module) -> Iterator[None]:
    """Evaluation mode, and afterwards each module's own mode again."""
    modes = [(module, module.training) for part in parts for module in part.modules()]
    for part in parts:
        part.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
