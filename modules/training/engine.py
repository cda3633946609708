"""A thin room over accelerate and torch.amp: device, processes, precision, backward, step.

Autocast is torch's own, because accelerate refuses fp16 on the CPU; the loss scale is ours, because
torch's asks the device for it in every step. In fp32 and bf16 nothing here reads from the device,
and in fp16 a step reads once whether its gradients have overflown.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import GradientAccumulationPlugin
from torch import Tensor, nn

from modules.memory.precision import autocast
from modules.memory.scaling import LossScale
from modules.optim.clipping import clip
from modules.optim.freeze_schedule import Stops
from modules.optim.fused_backward import FusedBackward
from modules.optim.schedule_free import enter_training_form
from modules.optim.update import Movement
from onetrainer.config.run.hardware import Precision
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
        self._scale = LossScale() if precision == "fp16" else None
        self._overflows = 0
        self._in_backward: FusedBackward | None = None
        self._microbatches = 0
        enter_training_form(movement.optimizer)

    def fused_backward(self) -> None:
        """From now on each weight moves in the backward pass. To be called after restoring.

        The config has refused what needs all gradients at once.
        """
        assert self._clipping == 0
        self._in_backward = FusedBackward(self._movement, self._scale)

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
        assert self._microbatches == 1 or self._in_backward is None
        self._accelerator.backward(self._scale.scaled(loss) if self._scale else loss)

    def step(self) -> None:
        """Moves the weights by the gradients of the step's microbatches, and forgets these.

        With fp16 a step whose gradients overflow moves nothing and lowers the loss scale; UserError
        if that has happened so many times in a row that nothing can be learnt. With a step in
        backward the weights have moved by now, but for those whose own gradient has overflown.
        """
        if self._in_backward is not None:
            self._note(self._in_backward.finish())
            return
        weights = [weight for weight in self._movement.parameters if weight.grad is not None]
        overflows = self._scale.unscale(_gradients(weights)) if self._scale else None
        if self._clipping > 0:
            clip(_gradients(weights), self._clipping)
        # The one read of a step, and only with fp16.
        has_overflown = overflows is not None and bool(overflows.item())
        if not has_overflown:
            self._movement.move_all()
        self._movement.optimizer.zero_grad(set_to_none=True)
        self._note(has_overflown)

    def state_dict(self) -> dict[str, Any]:
        """What of the engine a checkpoint holds: the loss scale and its history."""
        return self._scale.state_dict() if self._scale else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes the loss scale up again; a checkpoint of another precision has none, or needs none.

        Raises KeyError for a state that is none of the engine's.
        """
        if state and self._scale:
            self._scale.load_state_dict(state)

    def _note(self, has_overflown: bool) -> None:
        """Sets the loss scale after a step, and counts steps from which nothing was learnt."""
        if self._scale is not None:
            self._scale.update(has_overflown)
        self._overflows = self._overflows + 1 if has_overflown else 0
        if self._overflows >= MOST_OVERFLOWS:
            raise UserError(
                f"the gradients overflow fp16 in {MOST_OVERFLOWS} steps in a row",
                "Nothing is learnt in such steps",
                "Train in bf16 or fp32 (hardware.precision), or lower the learning rate.",
            )


def _gradients(weights: list[nn.Parameter]) -> list[Tensor]:
    return [weight.grad for weight in weights if weight.grad is not None]
