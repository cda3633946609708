"""The reconstruction objective of VAE training: decode an image's latent back to the image."""

import torch
from torch import Tensor

from modules.diffusion.draws import Draws
from modules.interfaces import Batch, Family, Loss, Probe
from modules.memory.to_device import to_device
from modules.objectives.perceptual import PerItem, load_lpips
from onetrainer.config.objectives.reconstruction import Reconstruction as ReconstructionSection


class Reconstruction:
    """The difference between images and the decoder's reconstructions of them.

    Each latent is sampled from the encoder's posterior by (seed, purpose, step, position), so a
    step is independent of microbatch size, and the decoder trains on the spread of latents that it
    is used with (Rombach et al. 2022, arXiv:2112.10752, appendix G).
    """

    def __init__(
        self, family: Family, section: ReconstructionSection, *, device: torch.device
    ) -> None:
        """Load LPIPS if it is used. Raises UserError if its package is not installed."""
        self._family = family
        self._section = section
        self._device = device
        self._lpips = load_lpips(device) if section.lpips > 0 else None

    def loss(self, batch: Batch, *, seed: int, step: int) -> Loss:
        """Compute the loss of a microbatch, in float32 also under autocast.

        Raises:
            ValueError: The batch has no pixels.
        """
        if batch.pixels is None:
            raise ValueError("reconstruction needs the images' pixels")
        with torch.autocast(self._device.type, enabled=False):
            draws = Draws(seed, step, batch.positions)
            latents = batch.moments.drawn(draws.normal("latent", batch.moments.mean.shape[1:]))
            decoded = self._family.decode_unclamped(to_device(latents, self._device))
            target = to_device(batch.pixels, self._device, torch.float32)
            per_item = reconstruction_loss(decoded, target, self._section, lpips=self._lpips)
            weighed = per_item
            if batch.loss_weights:
                weighed = per_item * to_device(torch.tensor(batch.loss_weights), self._device)
        return Loss(weighed.sum() * batch.weight, per_item.detach())

    def validation(self, batch: Batch, probe: Probe) -> Tensor:
        """Compute the loss of the mean of the image's posterior, (K,), without noise.

        Raises:
            ValueError: The batch has no pixels.
        """
        if batch.pixels is None:
            raise ValueError("reconstruction needs the images' pixels")
        with torch.autocast(self._device.type, enabled=False):
            decoded = self._family.decode_unclamped(to_device(batch.moments.mean, self._device))
            target = to_device(batch.pixels, self._device, torch.float32)
            loss = reconstruction_loss(decoded, target, self._section, lpips=self._lpips)
        return loss.expand(len(probe.levels))


def reconstruction_loss(
    decoded: Tensor,
    target: Tensor,
    section: ReconstructionSection,
    *,
    lpips: PerItem | None = None,
) -> Tensor:
    """Compute the weighted sum of the section's loss terms for each image, (B,), float32.

    Args:
        decoded: (B, 3, H, W), float32, in [-1, 1].
        target: (B, 3, H, W), float32, in [-1, 1].
        section: The weights.
        lpips: None if its weight is 0.
    """
    difference = decoded - target
    per_item = section.l1 * difference.abs().mean(dim=(1, 2, 3))
    per_item = per_item + section.l2 * difference.square().mean(dim=(1, 2, 3))
    if lpips is not None:
        per_item = per_item + section.lpips * lpips(decoded, target)
    return per_item
