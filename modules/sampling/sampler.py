"""Pictures out of a model, for people to look at.

Guidance: Ho & Salimans 2022, arXiv:2207.12598. Its rescale: Lin et al. 2023, arXiv:2305.08891,
section 3.4.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from modules.interfaces import Conditioning, Family
from modules.memory.eval_mode import evaluation
from modules.memory.residency import Enter
from modules.sampling.schedulers import make_scheduler, set_steps, step
from onetrainer.config.run.sampling import Prompt, SamplerName

LATENT_CHANNELS = 4
LATENT_SCALE = 8  # pixels a latent's side


@dataclass(frozen=True)
class Around:
    """The contexts that a family's parts need while they compute.

    autocast: of every call of the text encoders and the UNet. phase: puts the parts where
    "encoding", "drawing" and "decoding" need them.
    """

    autocast: Callable[[], AbstractContextManager[object]] = nullcontext
    phase: Enter = lambda _: nullcontext()


ALONE = Around()
"""Everything is where it is needed, and computes as it is stored."""


@dataclass(frozen=True)
class _Texts:
    """The conditioning of the pictures whose texts are equally long.

    places: (n,), int64, which pictures of the batch; without: their negative prompts, None where
    there is no guidance.
    """

    places: Tensor
    prompts: Conditioning
    without: Conditioning | None


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
    around: Around = ALONE,
) -> Tensor:
    """Pictures of one size, (B, 3, height, width), float32 in [-1, 1], on the VAE's device.

    A picture is the same, up to rounding, whatever else is in its batch.
    guidance: how far to go from the negative prompt toward the prompt; 1 asks the prompt alone.
    guidance_rescale: how much of the contrast that guidance adds is taken back, 0 to 1.
    on_step: told before each step, from 0; whatever it raises ends the sampling. around: the
    contexts that the family's parts need.
    The family is in evaluation mode meanwhile; adapters on it are their method's to switch.
    """
    _require_one_size(prompts)
    scheduler = make_scheduler(sampler, family.schedule.settings, family.prediction)
    set_steps(scheduler, steps)
    device = family.schedule.signal.device
    generators = [torch.Generator().manual_seed(prompt.seed) for prompt in prompts]
    noise = torch.cat([_noise(prompt, g) for prompt, g in zip(prompts, generators, strict=True)])
    with evaluation(family.unet, family.vae, *family.text_encoders.values()):
        with around.phase("encoding"), around.autocast():
            texts = _encode(family, prompts, has_negative=guidance != 1)
        latents = (noise * scheduler.init_noise_sigma).to(device)
        predict = partial(_predict, family, around, _frame(prompts[0]).to(device))
        with around.phase("drawing"):
            for number, timestep in enumerate(scheduler.timesteps):
                on_step(number)
                noisy = scheduler.scale_model_input(latents, timestep)
                predicted = torch.empty_like(latents)
                for group in texts:
                    both = predict(noisy[group.places], timestep, group)
                    predicted[group.places] = _guide(*both, guidance, guidance_rescale)
                latents = step(scheduler, predicted, timestep, latents, generators)
        # One by one: the VAE needs more memory for a picture than the UNet.
        with around.phase("decoding"):
            return torch.cat([family.decode_latents(latent[None]) for latent in latents])


def rescale(guided: Tensor, prompted: Tensor, amount: float) -> Tensor:
    """The guided prediction, brought toward the standard deviation of the prompt's own.

    guided, prompted: (B, 4, h, w). amount: 0 to 1; φ in the source.
    Source: Lin et al. 2023, arXiv:2305.08891, equations 15 and 16.
    """
    axes = (1, 2, 3)
    factor = prompted.std(axes, keepdim=True) / guided.std(axes, keepdim=True)
    return guided * (amount * factor + (1 - amount))


def _require_one_size(prompts: Sequence[Prompt]) -> None:
    if len({(prompt.width, prompt.height) for prompt in prompts}) != 1:
        raise ValueError("a batch holds at least one picture, and pictures of one size alone")


def _noise(prompt: Prompt, generator: torch.Generator) -> Tensor:
    """(1, 4, height / 8, width / 8), float32 on the CPU, so that it is the same on every device."""
    shape = (1, LATENT_CHANNELS, prompt.height // LATENT_SCALE, prompt.width // LATENT_SCALE)
    return torch.randn(shape, generator=generator)


def _frame(prompt: Prompt) -> Tensor:
    """(1, 6), float32: an original of just this size, shown whole."""
    size = (prompt.height, prompt.width)
    return torch.tensor([[*size, 0, 0, *size]], dtype=torch.float32)


def _encode(family: Family, prompts: Sequence[Prompt], *, has_negative: bool) -> list[_Texts]:
    """The texts, encoded picture by picture and put together where they are equally long.

    Encoded together, short ones would be filled up as far as the longest one of the batch.
    """
    encoded: dict[tuple[str, ...], Conditioning] = {}
    places: dict[int, list[int]] = {}
    keys = [(p.negative, p.prompt) if has_negative else (p.prompt,) for p in prompts]
    for place, key in enumerate(keys):
        if key not in encoded:
            encoded[key] = family.encode_text(key)
        places.setdefault(encoded[key].hidden.shape[1], []).append(place)
    return [
        _Texts(
            torch.tensor(group, device=family.schedule.signal.device),
            _join([_row(encoded[keys[place]], -1) for place in group]),
            _join([_row(encoded[keys[place]], 0) for place in group]) if has_negative else None,
        )
        for group in places.values()
    ]


def _row(conditioning: Conditioning, index: int) -> Conditioning:
    """One text's conditioning, still with its batch axis."""
    pooled = None if conditioning.pooled is None else conditioning.pooled[index][None]
    return Conditioning(conditioning.hidden[index][None], pooled)


def _join(parts: Sequence[Conditioning]) -> Conditioning:
    pooled = [part.pooled for part in parts if part.pooled is not None]
    return Conditioning(
        torch.cat([part.hidden for part in parts]), torch.cat(pooled) if pooled else None
    )


def _predict(
    family: Family, around: Around, frame: Tensor, noisy: Tensor, timestep: Tensor, texts: _Texts
) -> tuple[Tensor, Tensor | None]:
    """The predictions with the prompts and with the negative ones, both out of one call."""
    conditioning = texts.prompts
    if texts.without is not None:
        conditioning = _join([texts.without, conditioning])
        noisy = torch.cat([noisy, noisy])
    count = len(noisy)
    with around.autocast():
        predicted = family.predict(
            noisy,
            timestep.to(noisy.device).expand(count),
            conditioning,
            frames=frame.expand(count, -1),
        )
    if texts.without is None:
        return predicted, None
    without, prompted = predicted.chunk(2)
    return prompted, without


def _guide(
    prompted: Tensor, without: Tensor | None, guidance: float, rescale_amount: float
) -> Tensor:
    if without is None:
        return prompted
    guided = without + guidance * (prompted - without)
    return rescale(guided, prompted, rescale_amount) if rescale_amount else guided
