"""A thin room over accelerate and torch.amp: device, processes, precision, backward, step.

Gradient scaling and autocast are torch's own, because accelerate refuses fp16 on the CPU.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from modules.memory.precision import autocast, scaler
from onetrainer.config.hardware import Precision


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
        self._accelerator = Accelerator(cpu=device.type == "cpu", mixed_precision="no")
        self.device = device
        self._precision = precision
        self._optimizer = optimizer
        self._clipping = gradient_clipping
        self._scaler = scaler(device, precision)

    def autocast(self) -> AbstractContextManager[object]:
        """The context of every forward pass."""
        return autocast(self.device, self._precision)

    def backward(self, loss: Tensor) -> None:
        """Adds a microbatch's gradients to those of the step."""
        self._accelerator.backward(self._scaler.scale(loss))

    def step(self) -> None:
        """Moves the weights by the gradients of the step's microbatches, and forgets these.

        With fp16 a step whose gradients overflow moves nothing and lowers the loss scale.
        """
        self._scaler.unscale_(self._optimizer)
        if self._clipping > 0:
            nn.utils.clip_grad_norm_(self._parameters(), self._clipping)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Any]:
        """What of the engine a checkpoint holds: the loss scale and its history."""
        return dict(self._scaler.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes the loss scale up again."""
        if state:
            self._scaler.load_state_dict(dict(state))

    def _parameters(self) -> Iterable[nn.Parameter]:
        return [weight for group in self._optimizer.param_groups for weight in group["params"]]
