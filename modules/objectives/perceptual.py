"""Perceptual distance of two images, from optional packages."""

import importlib
from collections.abc import Callable

import torch
from torch import Tensor

from modules.memory.residency import move_module
from onetrainer.config.objectives.reconstruction import LPIPS_EXTRA
from onetrainer.config.optimizers.optimizer import install_command
from onetrainer.errors import UserError

PerItem = Callable[[Tensor, Tensor], Tensor]
"""From decoded and target images, (B, 3, H, W), float32, about [-1, 1], to distances, (B,)."""


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
