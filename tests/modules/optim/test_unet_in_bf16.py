"""A UNet's own weights in bf16: rounded by chance, in backward and not, saved and resumed."""

import pytest
import torch

from modules import seeds
from modules.interfaces import ParameterGroup
from modules.memory.layers.layers import LayerSettings
from modules.optim.build import build_optimizer
from modules.optim.construct import set_lr
from modules.optim.freeze_schedule import FreezeSchedule
from modules.optim.optimizer_state import OptimizerProgress
from modules.optim.update import WeightUpdater
from modules.training.engine import Engine
from onetrainer.config.optimizers.adafactor import Adafactor
from onetrainer.config.optimizers.adam import AdamW
from tests import tiny
from tests.managed import manage
from tests.stepping import equal

CPU = torch.device("cpu")
SAVING = LayerSettings(checkpointing="selective", offload=0.5, activations=0.5)


class UnetTraining:
    def __init__(self, section, *, in_backward, seed=0, is_saving=False):
        self.family = tiny.family(seed=seed, compute_dtype=torch.bfloat16)
        self.unet = self.family.unet.requires_grad_(True).train()
        if is_saving:
            manage(self.family, SAVING)
        self.weights = dict(self.unet.named_parameters())
        self.optimizer = build_optimizer(section, [ParameterGroup("unet", self.weights)])
        self.progress = OptimizerProgress(self.optimizer, self.weights)
        self.in_backward = in_backward
        self.engine = Engine(
            device=CPU,
            precision="bf16",
            updater=WeightUpdater(self.optimizer, rounding_seed=3, updates_independently=True),
            freeze_schedule=FreezeSchedule([]),
            gradient_clipping=0.0,
        )

    def run(self, first, last):
        if self.in_backward:
            self.engine.enable_fused_backward()
        for step in range(first, last):
            set_lr(self.optimizer, min(1.0, step / 4))
            self.engine.begin(step)
            draw = seeds.generator(0, "latents", step)
            noisy, noise = torch.randn(2, 2, 4, 8, 8, generator=draw)
            text = torch.randn(2, 8, tiny.WIDTH, generator=draw)
            with self.engine.autocast():
                predicted = self.unet(noisy, torch.tensor([10, 700]), text).sample
            self.engine.backward(((predicted.float() - noise) ** 2).mean())
            self.engine.clip_gradients()
            self.engine.step()
        return self

    def snapshot(self):
        return {name: weight.detach().clone() for name, weight in self.weights.items()}


@pytest.mark.parametrize(
    ("section", "is_saving"),
    [
        (AdamW(lr=1e-3), True),
        pytest.param(Adafactor(lr=1e-3), False, marks=pytest.mark.long),
    ],
    ids=["adamw, checkpointing and offload", "adafactor"],
)
def test_in_backward_and_resumed_it_trains_the_weights_of_the_normal_run(section, is_saving):
    start = UnetTraining(section, in_backward=False).snapshot()
    normal = UnetTraining(section, in_backward=False).run(0, 4)
    half = UnetTraining(section, in_backward=True, is_saving=is_saving).run(0, 2)
    other = UnetTraining(section, in_backward=True, seed=1, is_saving=is_saving)
    with torch.no_grad():
        for name, weight in other.weights.items():
            weight.copy_(half.weights[name])
    other.progress.load(*half.progress.save())
    other.run(2, 4)
    moved = [
        name for name, value in normal.snapshot().items() if not torch.equal(value, start[name])
    ]
    assert len(moved) > 0.9 * len(start)
    assert all(weight.dtype == torch.bfloat16 for weight in other.weights.values())
    assert equal(other.snapshot(), normal.snapshot())
