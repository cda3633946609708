"""A training so small that a test can run a dozen: all that moves weights, and no images."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor, nn

from modules import seeds
from modules.interfaces import ParameterGroup
from modules.optim.build import build_optimizer
from modules.optim.ema import Ema
from modules.optim.freeze_schedule import FreezeSchedule
from modules.optim.learning_rate import set_lr
from modules.optim.optimizer_state import OptimizerProgress
from modules.optim.update import WeightUpdater
from modules.training.checkpoint_record import CheckpointRecord
from modules.training.checkpoints import Checkpoints
from modules.training.engine import Engine
from onetrainer.config.optimizers.optimizer import Optimizer, missing_package
from onetrainer.config.run.hardware import Precision
from onetrainer.run.run_folder import RunFolder

CPU = torch.device("cpu")
WARM_UP = 8
SECTIONS = [
    kind()
    for kind in get_args(get_args(Optimizer)[0])
    if kind.target
    and not missing_package(kind())
    and "paged" not in kind().kind  # that is for GPUs
]
"""Every optimizer that is installed, and that this program knows."""
INDEPENDENT = [section for section in SECTIONS if section.updates_independently]


class Net(nn.Module):
    """A convolution and a few layers; one is large enough for 8-bit statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.middle = nn.Linear(8 * 16, 64)
        self.last = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 4))

    def forward(self, pixels: Tensor) -> Tensor:
        """pixels: (B, 3, 6, 6). Returns (B, 4)."""
        hidden = torch.tanh(self.first(pixels)).flatten(1)
        return self.last(torch.tanh(self.middle(hidden)))


class Training:
    """The net as a Method, with two groups: "unet" (first, middle) and "te" (last)."""

    def __init__(
        self,
        section: Optimizer,
        *,
        dtype: torch.dtype = torch.float32,
        rounding_seed: int | None = None,
        in_backward: bool = False,
        ema: bool = False,
        clipping: float = 0.0,
        stop_after: Sequence[int] = (0, 0),
        seed: int = 0,
        precision: Precision = "fp32",
        device: torch.device = CPU,
    ) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.net = Net().to(device, dtype)
        self.dtype, self.device = dtype, device
        self.in_backward = in_backward
        groups = self.parameter_groups()
        self.weights = {name: w for group in groups for name, w in group.parameters.items()}
        self.optimizer = build_optimizer(section, groups)
        self.updater = WeightUpdater(
            self.optimizer,
            rounding_seed=rounding_seed,
            updates_independently=section.updates_independently,
            skips_zero_rates=section.skips_zero_rates,
        )
        ends = zip(groups, stop_after, strict=True)
        self.engine = Engine(
            device=device,
            precision=precision,
            updater=self.updater,
            freeze_schedule=FreezeSchedule([replace(group, stop_after=end) for group, end in ends]),
            gradient_clipping=clipping,
        )
        self.progress = OptimizerProgress(self.optimizer, self.weights)
        self.ema = None
        if ema:
            self.ema = Ema(self.weights, decay=0.9, ramp=True, every=2, location="device")

    def parameter_groups(self) -> list[ParameterGroup]:
        named = dict(self.net.named_parameters())
        te = {name: weight for name, weight in named.items() if name.startswith("last")}
        unet = {name: weight for name, weight in named.items() if name not in te}
        return [ParameterGroup("unet", unet), ParameterGroup("te", te, lr=0.02)]

    def state_dict(self) -> dict[str, Tensor]:
        return {name: weight.detach() for name, weight in self.weights.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(state[name])

    def snapshot(self) -> dict[str, Tensor]:
        """A copy of the weights as they are."""
        return {name: weight.detach().clone() for name, weight in self.weights.items()}

    def loss(self, step: int) -> Tensor:
        """Of four images that follow from the step."""
        pixels = torch.randn(4, 3, 6, 6, generator=seeds.generator(1, "pixels", step))
        target = torch.stack([pixels.mean((1, 2, 3)), pixels.amax((1, 2, 3))] * 2, 1)
        predicted = self.net(pixels.to(self.device, self.dtype)).float()
        return ((predicted - target.to(self.device)) ** 2).mean()

    def run(self, first: int, last: int) -> "Training":
        """Makes steps as the trainer does, with a warm-up from 0; hooks first, if there are any."""
        if self.in_backward:
            self.engine.enable_fused_backward()
        for step in range(first, last):
            self.step(step)
        return self

    def step(self, step: int) -> None:
        set_lr(self.optimizer, min(1.0, step / WARM_UP))
        self.engine.begin(step)
        self.engine.backward(self.loss(step))
        self.engine.clip_gradients()
        self.engine.step()
        if self.ema is not None:
            self.ema.update(step + 1)

    def checkpoints(self, folder: RunFolder) -> Checkpoints:
        return Checkpoints(
            folder=folder,
            method=self,
            optimizer=self.progress,
            ema=self.ema,
            engine=self.engine,
            keep=2,
        )

    def save(
        self, folder: RunFolder, step: int, *, best_step: int | None = None, **reported: str
    ) -> Path:
        record = CheckpointRecord(step, "digest", 0, {}, self.engine.state_dict(), **reported)
        checkpoints = self.checkpoints(folder)
        return checkpoints.write(checkpoints.content(record), best_step=best_step)


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Whether tensors are the same bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)
