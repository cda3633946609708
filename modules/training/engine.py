"""Device, precision, backward pass, clipping and optimizer step, on accelerate and torch.amp.

Autocast is torch's own, because accelerate refuses fp16 on the CPU. The loss scale is ours, because
torch's reads from the device in every step: here fp32 and bf16 never read from the device, and fp16
reads once per step, whether its gradients have overflown.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import GradientAccumulationPlugin
from torch import Tensor

from modules.memory.precision import autocast
from modules.memory.scaling import LossScale
from modules.optim.clipping import clip
from modules.optim.exported_weights import enter_training_form
from modules.optim.freeze_schedule import FreezeSchedule
from modules.optim.fused_backward import FusedBackward
from modules.optim.update import WeightUpdater
from onetrainer.config.run.hardware import Precision
from onetrainer.errors import UserError

# The loss scale starts at 65536 and each overflow halves it: after so many it is far below 1.
MAX_OVERFLOWS_IN_A_ROW = 40


class Engine:
    """Steps of training: `begin`, `backward` per microbatch, `clip_gradients`, `step`."""

    def __init__(
        self,
        *,
        device: torch.device,
        precision: Precision,
        updater: WeightUpdater,
        freeze_schedule: FreezeSchedule,
        gradient_clipping: float,
    ) -> None:
        """Create the engine of a run.

        gradient_clipping: Largest norm of a step's whole gradient; 0 disables clipping.
        """
        self._accelerator = Accelerator(
            cpu=device.type == "cpu",
            mixed_precision="no",
            # Explicit, or an environment variable would divide every gradient.
            gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),
        )
        self.device = device
        self._precision = precision
        self._updater = updater
        self._freeze_schedule = freeze_schedule
        self._clipping = gradient_clipping
        self._scale = LossScale() if precision == "fp16" else None
        self._overflow: Tensor | None = None
        self._overflows_in_a_row = 0
        self._fused_backward: FusedBackward | None = None
        self._microbatches = 0
        enter_training_form(updater.optimizer)

    def enable_fused_backward(self) -> None:
        """Update each weight during the backward pass from now on. Call after restoring.

        The config has refused what needs all gradients at once.
        """
        assert self._clipping == 0
        self._fused_backward = FusedBackward(self._updater, self._scale)

    def autocast(self) -> AbstractContextManager[object]:
        """Return the context of every forward pass."""
        return autocast(self.device, self._precision)

    def begin(self, step: int) -> None:
        """Begin a step, from 0, after the learning rates are set.

        Raises:
            UserError: If no weight is trained any more.
        """
        self._freeze_schedule.apply(step)
        self._updater.begin(step)
        self._microbatches = 0

    def backward(self, loss: Tensor) -> None:
        """Add a microbatch's gradients to those of the step."""
        self._microbatches += 1
        assert self._microbatches == 1 or self._fused_backward is None
        self._accelerator.backward(self._scale.scaled(loss) if self._scale else loss)

    def clip_gradients(self) -> None:
        """Unscale the step's gradients (fp16) and clip their norm.

        Does nothing in a fused backward pass, which has freed each gradient by now.
        """
        if self._fused_backward is not None:
            return
        weights = self._updater.parameters
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        self._overflow = self._scale.unscale(gradients) if self._scale else None
        if self._clipping > 0:
            clip(gradients, self._clipping)

    def step(self) -> None:
        """Update the weights and clear the gradients, after `clip_gradients`.

        With fp16 a step whose gradients overflow updates nothing and lowers the loss scale. In a
        fused backward pass the weights are updated by now, except those with overflown gradients.

        Raises:
            UserError: If the gradients overflow in too many steps in a row.
        """
        if self._fused_backward is not None:
            has_overflown = self._fused_backward.finish()
        else:
            assert self._scale is None or self._overflow is not None, "clip_gradients comes first"
            # The step's only read from the device, and only with fp16.
            has_overflown = self._overflow is not None and bool(self._overflow.item())
            if not has_overflown:
                self._updater.update_all()
            self._updater.optimizer.zero_grad(set_to_none=True)
            self._overflow = None
        if self._scale is not None:
            self._scale.update(has_overflown)
        self._overflows_in_a_row = self._overflows_in_a_row + 1 if has_overflown else 0
        if self._overflows_in_a_row >= MAX_OVERFLOWS_IN_A_ROW:
            raise UserError(
                f"the gradients overflow fp16 in {MAX_OVERFLOWS_IN_A_ROW} steps in a row",
                "Such steps train nothing",
                "Train in bf16 or fp32 (hardware.precision), or lower the learning rate.",
            )

    def state_dict(self) -> dict[str, Any]:
        """Return what checkpoints store: the loss scale and its history; empty without one."""
        return self._scale.state_dict() if self._scale else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the loss scale, unless this run or the checkpoint has none.

        Raises:
            KeyError: If the state is not one of `state_dict`.
        """
        if state and self._scale:
            self._scale.load_state_dict(state)
