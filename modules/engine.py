"""A thin room over accelerate and torch.amp: device, processes, precision, backward, step.

Gradient scaling and autocast are torch's own, because accelerate refuses fp16 on the CPU.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import GradientAccumulationPlugin
from torch import Tensor, nn

from modules.memory.precision import autocast, scaler
from onetrainer.config.hardware import Precision
from onetrainer.errors import UserError

# The scale starts at 65536 and is halved by each: after so many it has long been below 1.
MOST_OVERFLOWS = 40


class Engine:
    """What moves the weights: backward for each microbatch, then one step."""

    def __init__(
        self,
        *,
        device: torch.device,
        precision: Precision,
        optimizer: torch.optim.Optimizer,
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
        self._optimizer = optimizer
        self._clipping = gradient_clipping
        self._scaler = scaler(device, precision)
        self._overflows = 0

    def autocast(self) -> AbstractContextManager[object]:
        """The context of every forward pass."""
        return autocast(self.device, self._precision)

    def backward(self, loss: Tensor) -> None:
        """Adds a microbatch's gradients to those of the step."""
        self._accelerator.backward(self._scaler.scale(loss))

    def step(self) -> None:
        """Moves the weights by the gradients of the step's microbatches, and forgets these.

        With fp16 a step whose gradients overflow moves nothing and lowers the loss scale; UserError
        if that has happened so many times in a row that nothing can be learnt.
        """
        self._scaler.unscale_(self._optimizer)
        if self._clipping > 0:
            nn.utils.clip_grad_norm_(self._parameters(), self._clipping)
        self._scaler.step(self._optimizer)
        scale = self._scaler.get_scale()
        self._scaler.update()
        self._count_overflow(self._scaler.get_scale() < scale)
        self._optimizer.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Any]:
        """What of the engine a checkpoint holds: the loss scale and its history."""
        return dict(self._scaler.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes the loss scale up again."""
        if state:
            self._scaler.load_state_dict(dict(state))

    def _count_overflow(self, has_overflown: bool) -> None:
        self._overflows = self._overflows + 1 if has_overflown else 0
        if self._overflows >= MOST_OVERFLOWS:
            raise UserError(
                f"the gradients overflow fp16 in {MOST_OVERFLOWS} steps in a row",
                "Nothing is learnt in such steps",
                "Train in bf16 or fp32 (hardware.precision), or lower the learning rate.",
            )

    def _parameters(self) -> Iterable[nn.Parameter]:
        return [weight for group in self._optimizer.param_groups for weight in group["params"]]
