"""Predict the noise that was added to a picture."""

import torch
from torch import Tensor
from torch.nn import functional

from modules import seeds
from modules.diffusion.targets import target
from modules.diffusion.timesteps import uniform
from modules.interfaces import Batch, Family, LatentMoments, Loss


class Denoising:
    """The mean squared error of the UNet's prediction (Ho et al. 2020, arXiv:2006.11239, eq. 14).

    Every picture draws its latent, noise and timestep from (seed, purpose, step, position), so a
    step is the same however it is cut into microbatches.
    """

    def __init__(self, family: Family, *, device: torch.device) -> None:
        self._family = family
        self._device = device
        self._schedule = family.schedule.to(device)

    def loss(self, batch: Batch, *, seed: int, step: int) -> Loss:
        """The loss of a microbatch; to be called under the engine's autocast."""
        latents = self._latents(batch.moments, seed=seed, step=step, positions=batch.positions)
        noise = draw_normal("noise", like=latents, seed=seed, step=step, positions=batch.positions)
        timesteps = self._timesteps(seed=seed, step=step, positions=batch.positions)
        latents, noise, timesteps = (x.to(self._device) for x in (latents, noise, timesteps))
        noisy = self._schedule.add_noise(latents, noise, timesteps)
        wanted = target(
            self._family.prediction,
            schedule=self._schedule,
            latents=latents,
            noise=noise,
            timesteps=timesteps,
        )
        conditioning = batch.conditioning or self._family.encode_text(
            batch.captions, among=batch.step_captions
        )
        predicted = self._family.predict(noisy, timesteps, conditioning, frames=batch.frames)
        error = functional.mse_loss(predicted.float(), wanted, reduction="none")
        per_item = error.mean(dim=(1, 2, 3))  # (B,)
        return Loss(per_item.sum() * batch.weight, per_item.detach())

    def _latents(
        self, moments: LatentMoments, *, seed: int, step: int, positions: tuple[int, ...]
    ) -> Tensor:
        noise = draw_normal("latent", like=moments.mean, seed=seed, step=step, positions=positions)
        return moments.mean + moments.std * noise

    def _timesteps(self, *, seed: int, step: int, positions: tuple[int, ...]) -> Tensor:
        drawn = [
            uniform(
                1,
                steps=self._schedule.steps,
                generator=seeds.generator(seed, "timestep", step, position),
            )
            for position in positions
        ]
        return torch.cat(drawn)  # (B,)


def draw_normal(
    purpose: str, *, like: Tensor, seed: int, step: int, positions: tuple[int, ...]
) -> Tensor:
    """Normal noise, (B, …) like `like` and on the CPU; one draw for each position."""
    drawn = [
        torch.randn(like.shape[1:], generator=seeds.generator(seed, purpose, step, position))
        for position in positions
    ]
    return torch.stack(drawn)
