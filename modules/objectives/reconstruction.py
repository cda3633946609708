"""Decode a picture's latent back to the picture."""

import torch
from torch import Tensor

from modules.diffusion.draws import Draws
from modules.interfaces import Batch, Family, Loss, Probe
from modules.memory.to_device import sent
from modules.objectives.perceptual import PerItem, load_lpips
from onetrainer.config.objectives.reconstruction import Reconstruction as ReconstructionSection


class Reconstruction:
    """The differences between pictures and what the decoder makes of their latents.

    Each latent is drawn from the encoder's posterior by (seed, purpose, step, position), so a step
    is the same however it is cut into microbatches, and the decoder learns the spread of latents
    that it was trained for (Rombach et al. 2022, arXiv:2112.10752, appendix G).
    """

    def __init__(
        self, family: Family, section: ReconstructionSection, *, device: torch.device
    ) -> None:
        """Raises UserError if a package that the section needs is not there."""
        self._family = family
        self._section = section
        self._device = device
        self._lpips = load_lpips(device) if section.lpips > 0 else None

    def loss(self, batch: Batch, *, seed: int, step: int) -> Loss:
        """The loss of a microbatch, in float32; autocast does not matter to it.

        Raises ValueError if the batch has no pixels.
        """
        if batch.pixels is None:
            raise ValueError("reconstruction needs the pictures' pixels")
        with torch.autocast(self._device.type, enabled=False):
            draws = Draws(seed, step, batch.positions)
            latents = batch.moments.drawn(draws.normal("latent", batch.moments.mean.shape[1:]))
            decoded = self._family.decode_unclamped(sent(latents, self._device))
            wanted = sent(batch.pixels, self._device, torch.float32)
            per_item = reconstruction_loss(decoded, wanted, self._section, lpips=self._lpips)
            counted = per_item
            if batch.loss_weights:
                counted = per_item * sent(torch.tensor(batch.loss_weights), self._device)
        return Loss(counted.sum() * batch.weight, per_item.detach())

    def validation(self, batch: Batch, probe: Probe) -> Tensor:
        """The loss of the mean of the picture's posterior, (K,): no noise is put on it.

        Raises ValueError if the batch has no pixels.
        """
        if batch.pixels is None:
            raise ValueError("reconstruction needs the pictures' pixels")
        with torch.autocast(self._device.type, enabled=False):
            decoded = self._family.decode_unclamped(sent(batch.moments.mean, self._device))
            wanted = sent(batch.pixels, self._device, torch.float32)
            loss = reconstruction_loss(decoded, wanted, self._section, lpips=self._lpips)
        return loss.expand(len(probe.levels))


def reconstruction_loss(
    decoded: Tensor,
    wanted: Tensor,
    section: ReconstructionSection,
    *,
    lpips: PerItem | None = None,
) -> Tensor:
    """The weighted sum of the section's differences for each picture, (B,), float32.

    decoded, wanted: (B, 3, H, W), float32, pictures in [-1, 1]. lpips: None where its weight is 0.
    """
    difference = decoded - wanted
    per_item = section.l1 * difference.abs().mean(dim=(1, 2, 3))
    per_item = per_item + section.l2 * difference.square().mean(dim=(1, 2, 3))
    if lpips is not None:
        per_item = per_item + section.lpips * lpips(decoded, wanted)
    return per_item
