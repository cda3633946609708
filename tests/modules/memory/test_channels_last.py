"""Convolutions with their channels last compute the same."""

import torch
from torch import nn

from modules.memory.channels_last import use_channels_last
from modules.methods.adapters.adapters import Adapters
from onetrainer.config.methods.low_rank import Lora
from tests import tiny
from tests.close import close


def test_only_frozen_convolutions_are_stored_so_and_gradients_are_the_same():
    found = []
    for is_last in (False, True):
        family = tiny.family()
        method = Adapters.attach(family, Lora(rank=2, targets="full"), seed=0)
        if is_last:
            use_channels_last(family.unet)
        weights = [m.weight for m in family.unet.modules() if isinstance(m, nn.Conv2d)]
        order = torch.channels_last
        assert is_last == all(
            weight.is_contiguous(memory_format=order) for weight in weights if weight.shape[2] > 1
        )
        trained = [w for group in method.parameter_groups() for w in group.parameters.values()]
        assert all(weight.is_contiguous() for weight in trained)
        latents = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))
        hidden = torch.randn(2, 7, tiny.WIDTH, generator=torch.Generator().manual_seed(1))
        output = family.unet(latents, torch.tensor([3, 700]), hidden).sample
        found.append((output, *torch.autograd.grad(output.square().mean(), trained)))
    # Rounding alone: sums are made in another order.
    close(found[1], found[0])
