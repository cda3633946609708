"""What a step takes at its peak: forward and backward, the optimizer, the average."""

from collections.abc import Callable
from typing import Generic

import torch
from torch import Tensor

from modules.assembly.optimizer import ema_of, movement_of, steps_in_backward
from modules.forecast.meta_run import Stage
from modules.interfaces import Objective
from modules.memory.precision import autocast
from modules.memory.scaling import LossScale
from modules.meta_device.meter import tensors_in
from modules.optim.build import build_optimizer
from modules.optim.clipping import clip
from modules.optim.fused_backward import FusedBackward
from modules.optim.schedule_free import enter_training_form
from modules.trainer import Given
from onetrainer.config.optimizers.low_bits import PagedAdamW8bit

LEAST_PAGED = 100_000
"""bitsandbytes pages statistics of so many numbers and more (optim/optimizer.py)."""
ENOUGH_MICROBATCHES = 2
"""The second one meets the gradients of the first, as all others do."""


class Steps(Generic[Given]):
    """A run's steps; what they leave behind (statistics, averages) lives as long as this object."""

    def __init__(
        self, stage: Stage, objective: Objective[Given], batch: Callable[[], Given]
    ) -> None:
        self._stage = stage
        self._meter = stage.imagined.meter
        self._objective = objective
        self._batch = batch
        config, method = stage.config, stage.attached.method
        groups = method.parameter_groups()
        self._weights = [weight for group in groups for weight in group.parameters.values()]
        self._hooks = [
            weight.register_post_accumulate_grad_hook(self._note_gradient)  # type: ignore[no-untyped-call] # torch's
            for weight in self._weights
        ]
        optimizer = build_optimizer(config.optimizer, groups)
        if stage.imagined.kind == "cuda":
            as_on_a_card(optimizer)
        enter_training_form(optimizer)
        self._movement = movement_of(config, optimizer)
        with self._meter.making("average"):
            self._ema = ema_of(config, groups)
        self._scale = LossScale() if config.hardware.precision == "fp16" else None
        self._in_backward: FusedBackward | None = None
        if steps_in_backward(config):
            self._in_backward = FusedBackward(self._movement, self._scale)
        method.train(True)

    def close(self) -> None:
        """Leaves the weights as they were found, unless they move in the backward pass."""
        for hook in self._hooks:
            hook.remove()

    def peak(self, activations: Callable[[int], int] = lambda known: known) -> dict[str, int]:
        """What is alive at the highest moment of any step but the first, by part.

        activations: how many bytes of them a backward pass really has, where those that are
        computed here are of a part of it.
        """
        moments = self._with_all_gradients() if self._in_backward is None else self._in_turn()
        moments[0]["activations"] = activations(moments[0].get("activations", 0))
        if self._ema is not None:
            self._meter.restart()
            self._ema.update(self._stage.config.ema.every)
            moments.append(self._now())
        return max(moments, key=lambda parts: sum(parts.values()))

    def backward_activations(self) -> int:
        """Bytes of activations at the highest moment of a first forward and backward pass."""
        self._meter.restart()
        self._compute()
        for weight in self._weights:
            weight.grad = None
        return self._now().get("activations", 0)

    def _with_all_gradients(self) -> list[dict[str, int]]:
        """Backward, and then the optimizer, twice, so that its statistics are there already."""
        self._meter.restart()
        self._movement.begin(0)
        for _ in range(min(self._stage.config.training.accumulation, ENOUGH_MICROBATCHES)):
            self._compute()
        backward = self._now()
        self._move()
        self._meter.restart()
        self._movement.begin(1)
        self._move()
        move = self._now()
        self._movement.optimizer.zero_grad(set_to_none=True)
        statistics = self._meter.alive().get("optimizer", 0)
        return [backward | {"optimizer": statistics}, move]

    def _in_turn(self) -> list[dict[str, int]]:
        """Two steps whose weights move in the backward pass."""
        assert self._in_backward is not None
        for step in range(2):
            self._meter.restart()
            self._movement.begin(step)
            self._compute()
            self._in_backward.finish()
            self._own_statistics()
        return [self._now()]

    def _compute(self) -> None:
        device, precision = self._stage.imagined.device, self._stage.config.hardware.precision
        with autocast(device, precision):
            loss = self._objective.loss(self._batch(), seed=0, step=0).value
        (self._scale.scaled(loss) if self._scale else loss).backward()  # type: ignore[no-untyped-call] # torch's

    def _move(self) -> None:
        """As `Engine.step`, but that gradients stay."""
        gradients = [weight.grad for weight in self._weights if weight.grad is not None]
        with self._meter.making("optimizer"):
            if self._scale is not None:
                self._scale.unscale(gradients)
            if self._stage.config.training.gradient_clipping > 0:
                clip(gradients, self._stage.config.training.gradient_clipping)
            self._movement.move_all()
        self._own_statistics()
        for weight in self._weights:
            self._note_gradient(weight)

    def _now(self) -> dict[str, int]:
        return dict(self._meter.peak.parts)

    def _note_gradient(self, weight: Tensor) -> None:
        if weight.grad is not None:
            self._meter.assign(weight.grad, "gradients")

    def _own_statistics(self) -> None:
        """Says what the optimizer keeps; what it may page out counts as if it had."""
        is_paged = self._stage.imagined.kind == "cuda" and isinstance(
            self._stage.config.optimizer, PagedAdamW8bit
        )
        for tensor in tensors_in(list(self._movement.optimizer.state.values())):
            if tensor.is_meta:
                self._meter.assign(tensor, "optimizer")
                if is_paged and tensor.numel() >= LEAST_PAGED:
                    self._meter.move(tensor, "host")


def as_on_a_card(optimizer: torch.optim.Optimizer) -> None:
    """Lets an optimizer of torch take the way that it takes on a card: all weights at once."""
    for group in optimizer.param_groups:
        if "foreach" in group and group["foreach"] is None and not group.get("fused"):
            group["foreach"] = True
