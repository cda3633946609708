"""Sampling of images from a model.

Guidance: Ho & Salimans 2022, arXiv:2207.12598. Its rescale: Lin et al. 2023, arXiv:2305.08891,
section 3.4.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from modules.diffusion.schedulers import step
from modules.interfaces import Conditioning, Family
from modules.memory.eval_mode import eval_mode
from modules.memory.residency import Enter
from modules.sampling.masked_image import masked_input
from onetrainer.config.run.sampling import Prompt, SamplerName


@dataclass(frozen=True)
class SamplingContexts:
    """The contexts that a family's components need while they compute.

    autocast: of every call of the text encoders and the UNet. phase: moves the components to where
    "encoding", "sampling" and "decoding" need them.
    """

    autocast: Callable[[], AbstractContextManager[object]] = nullcontext
    phase: Enter = lambda _: nullcontext()


NO_CONTEXTS = SamplingContexts()
"""For components that are where they are needed, and compute in their own dtype."""


@dataclass(frozen=True)
class _Texts:
    """The conditioning of the images whose texts have the same length.

    indices: (n,), int64, which images of the batch; negatives: their negative prompts, None
    without guidance.
    """

    indices: Tensor
    prompts: Conditioning
    negatives: Conditioning | None


@torch.no_grad()
def sample(
    family: Family,
    prompts: Sequence[Prompt],
    *,
    steps: int,
    guidance: float,
    sampler: SamplerName = "ddim",
    guidance_rescale: float = 0.0,
    on_step: Callable[[int], None] = lambda _: None,
    contexts: SamplingContexts = NO_CONTEXTS,
) -> Tensor:
    """Generate images of one size, (B, 3, height, width), float32 in [-1, 1], on the VAE's device.

    An image is the same, up to rounding, in any batch. The family is in evaluation mode meanwhile;
    adapters are switched by their method.

    Args:
        family: The model.
        prompts: One per image, all of one size, and of one masked image if they have any.
        steps: Number of sampling steps.
        guidance: How far to go from the negative prompt toward the prompt; 1 uses the prompt alone.
        sampler: The name of the sampler.
        guidance_rescale: How much of the contrast that guidance adds is removed, 0 to 1.
        on_step: Called before each step, numbered from 0; an exception ends the sampling.
        contexts: The contexts that the family's components need.
    """
    if len({(each.width, each.height, each.image, each.mask) for each in prompts}) != 1:
        raise ValueError("a batch must hold at least one image, and images of one size only")
    scheduler = family.process.scheduler(sampler, steps)
    device = family.process.levels.signal.device
    generators = [torch.Generator().manual_seed(prompt.seed) for prompt in prompts]
    noise = torch.cat(
        [_noise(family, prompt, g) for prompt, g in zip(prompts, generators, strict=True)]
    )
    # The size conditioning of an original of just this size, uncropped.
    size = (prompts[0].height, prompts[0].width)
    time_ids = torch.tensor([[*size, 0, 0, *size]], dtype=torch.float32)
    with eval_mode(family.unet, family.vae, *family.text_encoders.values()):
        with contexts.phase("encoding"), contexts.autocast():
            texts = _encode(family, prompts, has_negative=guidance != 1)
        masked = None
        if prompts[0].image:
            with contexts.phase("decoding"):
                masked = masked_input(family, prompts[0])
        latents = (noise * scheduler.init_noise_sigma).to(device)
        predict = partial(_predict, family, contexts, time_ids.to(device), masked)
        with contexts.phase("sampling"):
            for number, timestep in enumerate(scheduler.timesteps):
                on_step(number)
                noisy = scheduler.scale_model_input(latents, timestep)
                predicted = torch.empty_like(latents)
                for group in texts:
                    both = predict(noisy[group.indices], timestep, group)
                    predicted[group.indices] = _guide(*both, guidance, guidance_rescale)
                latents = step(scheduler, predicted, timestep, latents, generators)
        # One by one: the VAE needs more memory per image than the UNet.
        with contexts.phase("decoding"):
            return torch.cat([family.decode_latents(latent[None]) for latent in latents])


def _guide(prompted: Tensor, negative: Tensor | None, guidance: float, amount: float) -> Tensor:
    """Apply classifier-free guidance; negative: None without it."""
    if negative is None:
        return prompted
    return rescale(negative + guidance * (prompted - negative), prompted, amount)


def rescale(guided: Tensor, prompted: Tensor, amount: float) -> Tensor:
    """Scale the guided prediction toward the standard deviation of the prompt's own.

    Source: Lin et al. 2023, arXiv:2305.08891, equations 15 and 16.

    Args:
        guided: (B, 4, h, w).
        prompted: (B, 4, h, w).
        amount: 0 to 1; φ in the source.
    """
    if not amount:
        return guided
    axes = (1, 2, 3)
    factor = prompted.std(axes, keepdim=True) / guided.std(axes, keepdim=True)
    return guided * (amount * factor + (1 - amount))


def _noise(family: Family, prompt: Prompt, generator: torch.Generator) -> Tensor:
    """Draw initial noise, (1, C, h, w), float32, on the CPU for any device."""
    shape = family.spec.latent_shape(prompt.width, prompt.height)
    return torch.randn((1, *shape), generator=generator)


def _encode(family: Family, prompts: Sequence[Prompt], *, has_negative: bool) -> list[_Texts]:
    """Encode the texts image by image, and group those of the same length.

    Encoded together, short ones would be padded to the longest one of the batch.
    """
    encoded: dict[tuple[str, ...], Conditioning] = {}
    groups: dict[int, list[int]] = {}
    keys = [(p.negative, p.prompt) if has_negative else (p.prompt,) for p in prompts]
    for index, key in enumerate(keys):
        if key not in encoded:
            encoded[key] = family.encode_text(key)
        groups.setdefault(encoded[key].hidden.shape[1], []).append(index)
    return [
        _Texts(
            torch.tensor(group, device=family.process.levels.signal.device),
            Conditioning.joined([encoded[keys[index]].rows(slice(-1, None)) for index in group]),
            Conditioning.joined([encoded[keys[index]].rows(slice(1)) for index in group])
            if has_negative
            else None,
        )
        for group in groups.values()
    ]


def _predict(
    family: Family,
    contexts: SamplingContexts,
    time_ids: Tensor,
    masked: Tensor | None,
    noisy: Tensor,
    timestep: Tensor,
    texts: _Texts,
) -> tuple[Tensor, Tensor | None]:
    """Compute the predictions with the prompts and with the negative ones in one call."""
    conditioning = texts.prompts
    if texts.negatives is not None:
        conditioning = Conditioning.joined([texts.negatives, conditioning])
        noisy = torch.cat([noisy, noisy])
    count = len(noisy)
    with contexts.autocast():
        predicted = family.predict(
            noisy,
            timestep.to(noisy.device).expand(count),
            conditioning,
            time_ids=time_ids.expand(count, -1),
            masked=None if masked is None else masked.expand(count, -1, -1, -1),
        )
    if texts.negatives is None:
        return predicted, None
    negative, prompted = predicted.chunk(2)
    return prompted, negative
