"""What optimizers keep, on a device that does not exist and in truth: the same bytes."""

from itertools import product

import torch
from torch import nn

from modules.forecast.step_memory import use_foreach
from modules.meta_device.device import DEVICE, meta_device
from modules.meta_device.meter import tensors_in
from modules.optim.exported_weights import enter_training_form
from modules.optim.update import WeightUpdater
from tests.each import each
from tests.optimizer_steps import SECTIONS, SHAPES, built, weights


def kept(optimizer):
    """Bytes of everything in its state that is no single number."""
    states = list(tensors_in(list(optimizer.state.values())))
    return sum(one.numel() * one.element_size() for one in states if one.dim() > 0)


def moved(section, trained, dtype):
    """The optimizer after two steps."""
    optimizer = built(section, trained)
    enter_training_form(optimizer)
    use_foreach(optimizer)
    rounding = 0 if dtype == torch.bfloat16 else None
    updater = WeightUpdater(
        optimizer, rounding_seed=rounding, updates_independently=section.updates_independently
    )
    for step in range(2):
        for weight in trained.values():
            weight.grad = torch.ones_like(weight)
        updater.begin(step)
        updater.update_all()
    return optimizer


@each("section, dtype", product(SECTIONS, (torch.float32, torch.bfloat16)))
def test_what_an_optimizer_keeps_is_what_it_keeps_in_truth(section, dtype):
    real = kept(moved(section(), weights(dtype), dtype))
    with meta_device("cuda"):
        trained = {
            name: nn.Parameter(torch.empty(shape, device=DEVICE, dtype=dtype))
            for name, shape in SHAPES.items()
        }
        assert kept(moved(section(), trained, dtype)) == real > 0
