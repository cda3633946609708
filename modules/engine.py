"""A thin room over accelerate and torch.amp: device, processes, precision, backward, step.

Gradient scaling and autocast are torch's own, because accelerate refuses fp16 on the CPU.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import GradientAccumulationPlugin
from torch import Tensor, nn

from modules.memory.precision import autocast, scaler
from modules.optim.evaluation import enter_training_form
from modules.optim.in_backward import step_in_backward
from modules.optim.movement import Movement
from modules.optim.stops import Stops
from onetrainer.config.hardware import Precision
from onetrainer.errors import UserError

# The scale starts at 65536 and is halved by each: after so many it has long been below 1.
MOST_OVERFLOWS = 40


class Engine:
    """What moves the weights: backward for each microbatch, then one step.

    gradient_clipping: the largest norm of a step's whole gradient; 0 means any.
    """

    def __init__(
        self,
        *,
        device: torch.device,
        precision: Precision,
        movement: Movement,
        stops: Stops,
        gradient_clipping: float,
    ) -> None:
        self._accelerator = Accelerator(
            cpu=device.type == "cpu",
            mixed_precision="no",
            # Said outright, or an environment variable would divide every gradient.
            gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),
        )
        self.device = device
        self._precision = precision
        self._movement = movement
        self._stops = stops
        self._clipping = gradient_clipping
        self._scaler = scaler(device, precision)
        self._overflows = 0
        self._steps_in_backward = False
        self._microbatches = 0
        enter_training_form(movement.optimizer)

    def step_in_backward(self) -> None:
        """From now on each weight moves in the backward pass. To be called after restoring.

        The config has refused what needs all gradients at once.
        """
        assert self._clipping == 0
        assert not self._scaler.is_enabled()
        step_in_backward(self._movement)
        self._steps_in_backward = True

    def autocast(self) -> AbstractContextManager[object]:
        """The context of every forward pass."""
        return autocast(self.device, self._precision)

    def begin(self, step: int) -> None:
        """Begins a step, from 0, after the learning rates are set.

        Raises UserError if there is nothing left that trains.
        """
        self._stops.apply(step)
        self._movement.begin(step)
        self._microbatches = 0

    def backward(self, loss: Tensor) -> None:
        """Adds a microbatch's gradients to those of the step."""
        self._microbatches += 1
        assert self._microbatches == 1 or not self._steps_in_backward
        self._accelerator.backward(self._scaler.scale(loss))

    def step(self) -> None:
        """Moves the weights by the gradients of the step's microbatches, and forgets these.

        With fp16 a step whose gradients overflow moves nothing and lowers the loss scale; UserError
        if that has happened so many times in a row that nothing can be learnt.
        """
        if self._steps_in_backward:
            self._movement.finish()
            return
        optimizer = self._movement.optimizer
        self._scaler.unscale_(optimizer)
        if self._clipping > 0:
            nn.utils.clip_grad_norm_(self._movement.parameters, self._clipping)
        if self._scaler.is_enabled():
            self._step_scaled()
        else:
            self._movement.move_all()
        optimizer.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Any]:
        """What of the engine a checkpoint holds: the loss scale and its history."""
        return dict(self._scaler.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes the loss scale up again."""
        if state:
            self._scaler.load_state_dict(dict(state))

    def _step_scaled(self) -> None:
        with self._movement.rounding():
            self._scaler.step(self._movement.optimizer)
        scale = self._scaler.get_scale()
        self._scaler.update()
        self._count_overflow(self._scaler.get_scale() < scale)

    def _count_overflow(self, has_overflown: bool) -> None:
        self._overflows = self._overflows + 1 if has_overflown else 0
        if self._overflows >= MOST_OVERFLOWS:
            raise UserError(
                f"the gradients overflow fp16 in {MOST_OVERFLOWS} steps in a row",
                "Nothing is learnt in such steps",
                "Train in bf16 or fp32 (hardware.precision), or lower the learning rate.",
            )
