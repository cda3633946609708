"""Circular padding of convolutions, for images whose opposite edges continue each other."""

from torch import Tensor, nn
from torch.nn.functional import pad


def pad_circularly(*networks: nn.Module) -> None:
    """Let all convolutions of networks wrap around the edges of their input.

    Call it before adapters are attached, which copy their layer's padding: inputs are padded before
    they reach the layer and its adapter, and neither pads them again.
    """
    for network in networks:
        for layer in network.modules():
            if isinstance(layer, nn.Conv2d) and layer.kernel_size != (1, 1):
                layer.register_forward_pre_hook(_CircularPadding(layer))
                layer.padding = (0, 0)


def is_circular(network: nn.Module) -> bool:
    """Return whether a network's convolutions wrap around the edges."""
    hooks = [hook for layer in network.modules() for hook in layer._forward_pre_hooks.values()]
    return any(isinstance(hook, _CircularPadding) for hook in hooks)


class _CircularPadding:
    """A hook that pads the input of a convolution circularly, by what the layer had."""

    def __init__(self, layer: nn.Conv2d) -> None:
        assert not isinstance(layer.padding, str)
        height, width = layer.padding
        self._padding = (width, width, height, height)  # as `pad` orders them

    def __call__(self, layer: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        (x,) = inputs
        if any(self._padding):
            return pad(x, self._padding, mode="circular")
        # diffusers pads with a row and a column of zeros before a VAE encoder's strided layers.
        return pad(x[..., :-1, :-1], (0, 1, 0, 1), mode="circular")
