"""The reconstruction objective of VAE training: decode an image's latent back to the image."""

import importlib
from collections.abc import Callable

import torch
from torch import Tensor

from modules.diffusion.draws import Draws
from modules.interfaces import Batch, Family, Loss, Microbatch, Probe
from modules.memory.residency import move_module
from modules.memory.to_device import to_device
from modules.objectives.inputs import Inputs, ReconstructionInputs
from onetrainer import install_command
from onetrainer.config.objectives.reconstruction import LPIPS_EXTRA
from onetrainer.config.objectives.reconstruction import Reconstruction as ReconstructionSection
from onetrainer.errors import UserError

PerItem = Callable[[Tensor, Tensor], Tensor]
"""From decoded and target images, (B, 3, H, W), float32, about [-1, 1], to distances, (B,)."""


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

    def draw(self, batch: Microbatch, *, seed: int, step: int) -> ReconstructionInputs:
        """Draw the latents of a microbatch. Raises ValueError if it has no pixels."""
        assert isinstance(batch, Batch)
        draws = Draws(seed, step, batch.positions)
        return ReconstructionInputs(
            latents=batch.moments.drawn(draws.normal("latent", batch.moments.mean.shape[1:])),
            pixels=_pixels_of(batch),
            factors=torch.tensor(batch.loss_weights) if batch.loss_weights else None,
            weight=batch.weight,
        )

    def compute(self, inputs: Inputs) -> Loss:
        """Compute the loss of a microbatch, in float32 also under autocast."""
        assert isinstance(inputs, ReconstructionInputs)
        with torch.autocast(self._device.type, enabled=False):
            per_item = self._per_item(inputs.latents, inputs.pixels)
            weighed = per_item if inputs.factors is None else per_item * inputs.factors
        return Loss(weighed.sum() * inputs.weight, per_item.detach())

    def validation(self, batch: Batch, probe: Probe) -> Tensor:
        """Compute the loss of the mean of the image's posterior, (K,), without noise.

        Raises:
            ValueError: The batch has no pixels.
        """
        with torch.autocast(self._device.type, enabled=False):
            return self._per_item(batch.moments.mean, _pixels_of(batch)).expand(len(probe.levels))

    def _per_item(self, latents: Tensor, pixels: Tensor) -> Tensor:
        decoded = self._family.decode_unclamped(to_device(latents, self._device))
        target = to_device(pixels, self._device, torch.float32)
        return reconstruction_loss(decoded, target, self._section, lpips=self._lpips)


def _pixels_of(batch: Batch) -> Tensor:
    if batch.pixels is None:
        raise ValueError("reconstruction needs the images' pixels")
    return batch.pixels


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


def load_lpips(device: torch.device) -> PerItem:
    """Load LPIPS with VGG-16, frozen, float32 on the device; gradients flow to the images.

    The package gets VGG-16's weights through torchvision, which downloads them once.
    Source: Zhang et al. 2018, arXiv:1801.03924; the package's own weights, version 0.1.

    Raises:
        UserError: The package, or torchvision which it needs, is not installed.
    """
    try:
        library = importlib.import_module("lpips")
    except ImportError as error:
        raise UserError(
            f"objective.lpips: its package cannot be used ({error})",
            "Expected the packages lpips and torchvision",
            f"Install them with: {install_command(LPIPS_EXTRA)}; or set objective.lpips to 0",
        ) from error
    network = library.LPIPS(net="vgg", verbose=False)
    move_module(network, device, torch.float32)
    network.requires_grad_(False).eval()

    def distance(decoded: Tensor, target: Tensor) -> Tensor:
        per_item: Tensor = network(decoded, target).flatten()  # (B, 1, 1, 1) to (B,)
        return per_item

    return distance
