"""Device, precision, backward pass, clipping and optimizer step, on torch.amp.

The loss scale is ours, because torch's reads from the device in every step: here fp32 and bf16
never read from the device, and fp16 reads once per step, whether its gradients have overflown. A
broken step, whose loss or gradient is not finite, updates nothing: that is decided on the device,
and read later with the losses.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from modules.memory.scaling import LossScale
from modules.optim.clipping import clip, clip_divisor, gradient_norms
from modules.optim.exported_weights import enter_training_form
from modules.optim.freeze_schedule import FreezeSchedule
from modules.optim.fused_backward import FusedBackward
from modules.optim.step_check import StepCheck, UpdateSample
from modules.optim.update import WeightUpdater
from onetrainer.config.run.hardware import Precision
from onetrainer.errors import UserError

# The loss scale starts at 65536 and each overflow halves it: after so many it is far below 1.
MAX_OVERFLOWS_IN_A_ROW = 40


class Engine:
    """Steps of training: `begin`, `backward` per microbatch, `clip_gradients`, `step`.

    Attributes:
        frozen: Number of groups of weights that are frozen in this step.
    """

    def __init__(
        self,
        *,
        device: torch.device,
        precision: Precision,
        updater: WeightUpdater,
        freeze_schedule: FreezeSchedule,
        gradient_clipping: float,
        autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
        whole_norms: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        """Create the engine of a run.

        whole_norms: Returns the norms of whole weights' gradients, (n,), from those of the parts
        that this process has; None where it has all.
        autocast: Returns the context of every forward pass, new for each use.
        gradient_clipping: Largest norm of a step's whole gradient; 0 disables clipping.
        """
        self.device = device
        self._updater = updater
        self._freeze_schedule = freeze_schedule
        self._clipping = gradient_clipping
        self.autocast = autocast
        self._whole_norms = whole_norms
        self._scale = LossScale() if precision == "fp16" else None
        self._overflow: Tensor | None = None
        self._divisor: Tensor | None = None
        self.frozen = 0
        self._loss: Tensor | None = None
        self._check: StepCheck | None = None
        self._sample: UpdateSample | None = None
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

    @property
    def updates_in_backward(self) -> bool:
        """Whether the backward pass updates the weights."""
        return self._fused_backward is not None

    @property
    def weights(self) -> list[nn.Parameter]:
        """Every trained weight, in the optimizer's order."""
        return self._updater.parameters

    def begin(self, step: int) -> None:
        """Begin a step, from 0, after the learning rates are set.

        Raises:
            UserError: If no weight is trained any more.
        """
        self._freeze_schedule.apply(step)
        self.frozen = self._freeze_schedule.count(step)
        self._updater.begin(step)
        self._microbatches, self._loss, self._check = 0, None, None
        weights = self._updater.parameters if self._updater.rounds_to_nearest else []
        self._sample = UpdateSample.take(weights, step)

    def backward(self, loss: Tensor) -> None:
        """Add a microbatch's gradients to those of the step."""
        self._microbatches += 1
        assert self._microbatches == 1 or self._fused_backward is None
        value = loss.detach()
        self.add_loss(value)
        if self._fused_backward is not None:
            self._fused_backward.begin(value)
        self.differentiate(loss)

    def differentiate(self, loss: Tensor) -> None:
        """Add a loss's gradients to those of the step, as `backward` does, and note nothing."""
        scaled = self._scale.scaled(loss) if self._scale else loss
        scaled.backward()  # type: ignore[no-untyped-call] # torch's

    def set_loss(self, values: Sequence[Tensor]) -> None:
        """Set the losses of all microbatches of the step, where other processes have a part."""
        self._loss = None
        for value in values:
            self.add_loss(value)

    def add_loss(self, value: Tensor) -> None:
        """Note a microbatch's loss, without its graph, in the sum of the step."""
        self._loss = value if self._loss is None else self._loss + value

    def exchange_loss(self, memory: Tensor) -> None:
        """Keep the step's loss in other memory."""
        assert self._loss is not None, "backward comes first"
        self._loss = memory.copy_(self._loss)

    def clip_gradients(self) -> None:
        """Unscale the step's gradients (fp16), check them, and clip their norm.

        Optimizers whose kernels can divide gradients do it as they read them, in `step`. A fused
        backward pass has unscaled, checked and freed each gradient by now.
        """
        assert self._loss is not None, "backward comes first"
        gradients: list[Tensor] = []
        if self._fused_backward is not None:
            weights, norms = self._updater.parameters, self._fused_backward.norms(self.device)
        else:
            found = [(w, w.grad) for w in self._updater.parameters]
            weights = [weight for weight, gradient in found if gradient is not None]
            gradients = [gradient for _, gradient in found if gradient is not None]
            self._overflow = self._scale.unscale(gradients) if self._scale else None
            norms = gradient_norms(gradients)
            if self._whole_norms is not None:
                norms = self._whole_norms(norms)
        may_overflow = self._scale is not None
        self._check = StepCheck.of(self._loss, norms, weights, may_overflow=may_overflow)
        self._divisor = None
        norm = self._check.norm
        if self._clipping > 0 and self._updater.takes_divisor(norm.device):
            self._divisor = clip_divisor(norm, self._clipping)
        elif self._clipping > 0:
            clip(gradients, norm, self._clipping)

    def step(self) -> StepCheck:
        """Update the weights and clear the gradients, after `clip_gradients`; return the check.

        A broken step updates nothing. With fp16 neither does one whose gradients overflow, which
        lowers the loss scale. In a fused backward pass the weights are updated by now, except those
        whose own gradients are not finite.

        Raises:
            UserError: If the gradients overflow in too many steps in a row.
        """
        assert self._check is not None, "clip_gradients comes first"
        if self._fused_backward is not None:
            has_overflown = self._fused_backward.finish()
        else:
            # The step's only read from the device, and only with fp16.
            has_overflown = self._overflow is not None and bool(self._overflow.item())
            if not has_overflown:
                self._updater.update_all(self._check.broken, self._divisor)
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
        return self.sampled(self._check)

    def sampled(self, check: StepCheck) -> StepCheck:
        """Return the check of a step that is over with what its sample shows, if it has one."""
        if self._sample is None:
            return check
        return replace(check, unchanged=self._sample.unchanged())

    def update_unread(self) -> StepCheck:
        """Do the same as `clip_gradients` and `step`, and read nothing, so that it can be recorded.

        Only if `WeightUpdater.reads` is empty, in bf16 and fp32, and without `sampled`.
        """
        self.clip_gradients()
        assert self._check is not None and self._scale is None
        self._updater.update_unread(self._check.broken, self._divisor)
        self._updater.optimizer.zero_grad(set_to_none=True)
        return self._check

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
