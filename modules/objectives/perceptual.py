"""How different two pictures look, from libraries that are installed only if asked for."""

import importlib
from collections.abc import Callable

import torch
from torch import Tensor

from modules.memory.residency import put
from onetrainer.config.objectives.reconstruction import LPIPS_EXTRA
from onetrainer.config.optimizers.optimizer import install_command
from onetrainer.errors import UserError

PerItem = Callable[[Tensor, Tensor], Tensor]
"""From decoded pictures and wanted ones, (B, 3, H, W), float32, about [-1, 1], to (B,)."""


def load_lpips(device: torch.device) -> PerItem:
    """LPIPS over VGG-16's layers, frozen, float32 on the device; gradients flow to the pictures.

    Raises UserError if the package, or torchvision which it needs, is not there. The package gets
    VGG-16's weights through torchvision, which downloads them once.
    Source: Zhang et al. 2018, arXiv:1801.03924; the package's own weights, version 0.1.
    """
    try:
        library = importlib.import_module("lpips")
    except ImportError as error:
        raise UserError(
            f"objective.lpips: the package for it cannot be used ({error})",
            "The packages lpips and torchvision were expected",
            f"Install them with: {install_command(LPIPS_EXTRA)}; or set objective.lpips to 0",
        ) from error
    network = library.LPIPS(net="vgg", verbose=False)
    put(network, device, torch.float32)
    network.requires_grad_(False).eval()

    def distance(decoded: Tensor, wanted: Tensor) -> Tensor:
        per_item: Tensor = network(decoded, wanted).flatten()  # (B, 1, 1, 1) to (B,)
        return per_item

    return distance
