"""Work and time of a step and of a run: each network's passes, by the device's speed.

Counts the UNet, the VAE decoder and the rewards; not weight updates, file reads and copies of
offloading.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from modules.assembly.placement import autocast_of
from modules.assembly.rewards import rollout_of
from modules.data.prompts import time_ids_of
from modules.forecast.model import Stage
from modules.forecast.operator_costs import OperatorCounter
from modules.meta_device.device import DEVICE
from modules.sampling.rollout import Rollout
from onetrainer.config.objectives.slider import Slider
from onetrainer.config.rewards.algorithms import BestOfN
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import TrainConfig
from onetrainer.messages.durations import format_step_time
from onetrainer.presets.step_work import DeviceSpeed, Work, combined
from onetrainer.rewards.cost import StepCost, cost_of, passes_per_step

_CAPTION = "a picture"


@dataclass(frozen=True)
class PassWork:
    """What a UNet pass or an image computes.

    Attributes:
        plain: A pass without gradients.
        trained: A pass of a rollout with its backward pass and recomputation.
        ordinary: The same of an image in denoising.
        scored: Decoding and scoring an image.
    """

    plain: Work
    trained: Work
    ordinary: Work
    scored: Work
    scored_without_gradient: Work

    def of(self, cost: StepCost) -> Work:
        """Return the total of a step's passes and images."""
        return combined(
            (
                (self.plain, cost.sampling + cost.anchor),
                (self.trained, cost.trained + cost.anchor_trained),
                (self.ordinary, cost.ordinary),
                (self.scored, cost.scored),
                (self.scored_without_gradient, cost.scored_without_gradient),
            )
        )


def forecast_time(
    stage: Stage,
    speed: DeviceSpeed | None,
    where: str,
    timed: Callable[[float], TrainConfig] | None = None,
) -> dict[str, Any]:
    """Return `Forecast.time` of a run; empty if it never runs the UNet.

    speed: None for another device than this one, for which only passes are
    counted. where: Name of the device in messages, such as "on this processor". timed: The config
    whose lengths follow from the seconds of a step; None for the stage's.
    """
    cost = cost_of(stage.config)
    parts = cost.step.by_purpose()
    if not parts:
        return {}
    found: dict[str, Any] = {"unet_calls": sum(parts.values()), "parts": parts}
    if speed is None:
        return found
    work = _pass_work(stage)
    step = speed.seconds(work.of(cost.step))
    cost = cost_of(timed(step)) if timed else cost
    run = (
        step * cost.steps
        + speed.seconds(work.of(cost.evaluation)) * cost.evaluations
        + speed.seconds(work.of(cost.samples))
    )
    message = format_step_time(step=step, run=run, where=where)
    return found | {"seconds": step, "run_seconds": run, "message": message}


def step_work(stage: Stage) -> Work:
    """Return what a step of a run computes; nothing if it never runs the UNet."""
    cost = cost_of(stage.config)
    return _pass_work(stage).of(cost.step) if cost.step.by_purpose() else {}


def _pass_work(stage: Stage) -> PassWork:
    config, family, passes = stage.config, stage.model.attached.family, _Passes(stage)
    stage.model.attached.method.train(True)
    section, mixer = config.objective, stage.model.mixer
    ordinary = passes.with_gradient(passes.predicted, passes.rows)
    if not isinstance(section, AlignProp) or mixer is None:
        plain = passes.without_gradient(passes.predicted, passes.rows)
        return PassWork(plain, {}, ordinary, {}, passes.without_gradient(family.decode_latents))
    rollout = rollout_of(config, stage.model.attached, device=DEVICE)
    predicted = partial(passes.predicted_in_rollout, rollout)

    def scored(latents: Tensor) -> Tensor:
        return mixer.score(rollout.decode(latents), [_CAPTION]).total

    merged = stage.model.attached.method.merged if section.rollout.merge else nullcontext
    with merged():
        plain = passes.without_gradient(predicted, passes.rows)
    plainly = passes.without_gradient(scored)
    if isinstance(section.algorithm, BestOfN):
        return PassWork(plain, {}, ordinary, {}, plainly)
    trained = passes.with_gradient(predicted, passes.rows)
    return PassWork(plain, trained, ordinary, passes.with_gradient(scored), plainly)


class _Passes:
    """Compute passes, and count what they do.

    Attributes:
        rows: Latents per UNet call, including both halves of guidance.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._family = stage.model.attached.family
        section, batch = stage.config.objective, stage.config.training.batch_size
        self._size = stage.bucket.width, stage.bucket.height
        self.rows = batch
        if isinstance(section, AlignProp):
            self._size = section.rollout.width, section.rollout.height
            self.rows = batch * passes_per_step(section.rollout.guidance)
        if isinstance(section, Slider):
            self._size = section.width, section.height
        with torch.no_grad(), self._autocast():
            self._text = self._family.encode_text([_CAPTION]).repeated(self.rows)
        self._time_ids = time_ids_of(self._size, self.rows).to(DEVICE)

    def without_gradient(self, compute: Callable[[Tensor], Tensor], rows: int = 1) -> Work:
        """Return the work of a computation on the latents of one image, without gradients.

        rows: Of the latents, for the work of one of them.
        """
        with torch.no_grad(), self._autocast(), OperatorCounter() as work:
            compute(self._latents())
        return combined([(work.operations, 1 / rows)])

    def with_gradient(self, compute: Callable[[Tensor], Tensor], rows: int = 1) -> Work:
        """Return the work of a forward and backward pass."""
        with OperatorCounter() as work:
            with self._autocast():
                value = compute(self._latents().requires_grad_()).float().sum()
            value.backward()  # type: ignore[no-untyped-call] # torch's
        for group in self._stage.model.attached.method.parameter_groups():
            for weight in group.parameters.values():
                weight.grad = None
        return combined([(work.operations, 1 / rows)])

    def predicted(self, latents: Tensor) -> Tensor:
        """Run the UNet on every row."""
        timesteps = torch.zeros(self.rows, dtype=torch.int64, device=DEVICE)
        rows = latents.expand(self.rows, -1, -1, -1)
        return self._family.predict(rows, timesteps, self._text, time_ids=self._time_ids)

    def predicted_in_rollout(self, rollout: Rollout, latents: Tensor) -> Tensor:
        """Run the UNet on every row as in a rollout."""
        return rollout.predict_noise(
            latents.expand(self.rows, -1, -1, -1),
            [0] * self.rows,
            conditioning=self._text,
            time_ids=self._time_ids,
        )

    def _latents(self) -> Tensor:
        """Return the latents of one image, (1, 4, h, w)."""
        width, height = self._size
        shape = self._family.spec.latent_shape(width, height)
        return torch.zeros(1, *shape, device=DEVICE)

    def _autocast(self) -> AbstractContextManager[object]:
        return autocast_of(self._stage.config, DEVICE)
