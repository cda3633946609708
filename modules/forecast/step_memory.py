"""Peak memory of a step: forward, backward, optimizer, EMA."""

from collections.abc import Callable

import torch
from torch import Tensor

from modules.assembly.optimizer import ema_of, weight_updater_of
from modules.assembly.placement import autocast_of
from modules.forecast.model import Stage
from modules.interfaces import Microbatch
from modules.memory.scaling import LossScale
from modules.meta_device.device import DEVICE
from modules.meta_device.meter import tensors_in
from modules.objectives.inputs import Objective, loss_of
from modules.optim.build import build_optimizer
from modules.optim.clipping import clip, gradient_norms, not_finite
from modules.optim.exported_weights import enter_training_form
from modules.optim.fused_backward import FusedBackward
from onetrainer.config.optimizers.adam import AdamW, PagedAdamW8bit
from onetrainer.config.optimizers.custom import CustomOptimizer

LEAST_PAGED = 100_000
"""bitsandbytes pages optimizer state of this many numbers or more (optim/optimizer.py)."""
ENOUGH_MICROBATCHES = 2
"""The second microbatch meets the gradients of the first, as all later ones do."""


class StepMemory:
    """A run's steps; optimizer state and EMA live as long as this object."""

    def __init__(self, stage: Stage, objective: Objective, batch: Callable[[], Microbatch]) -> None:
        self._stage = stage
        self._meter = stage.model.meter
        self._objective = objective
        self._batch = batch
        config = stage.config
        self._method = method = stage.model.attached.method
        groups = method.parameter_groups()
        self._weights = [weight for group in groups for weight in group.parameters.values()]
        self._hooks = [
            weight.register_post_accumulate_grad_hook(self._note_gradient)  # type: ignore[no-untyped-call] # torch's
            for weight in self._weights
        ]
        # Code of the user's own is not run for a forecast, and need not work without numbers.
        is_custom = isinstance(config.optimizer, CustomOptimizer)
        optimizer = build_optimizer(AdamW() if is_custom else config.optimizer, groups)
        if stage.model.kind == "cuda":
            use_foreach(optimizer)
        enter_training_form(optimizer)
        self._updater = weight_updater_of(config, optimizer)
        with self._meter.assigning_to("ema"):
            self._ema = ema_of(config, groups)
        self._scale = LossScale() if config.hardware.precision == "fp16" else None
        # On a GPU a step does not wait for the flag of a broken one: weights are copied meanwhile.
        # The first step does, before it makes the optimizer's state.
        self._is_flagged = stage.model.kind == "cuda"
        self._fused_backward: FusedBackward | None = None
        if config.optimizer.is_fused:
            self._fused_backward = FusedBackward(self._updater, self._scale)
        method.train(True)

    def close(self) -> None:
        """Remove the hooks, except those of the fused backward pass."""
        for hook in self._hooks:
            hook.remove()

    def peak(self, activations: Callable[[int], int] = lambda known: known) -> dict[str, int]:
        """Return the memory at the peak of any step but the first, by part.

        activations: Maps measured to real bytes of activations, where a part is computed here.
        """
        is_fused = self._fused_backward is not None
        moments = self._with_fused_backward() if is_fused else self._with_all_gradients()
        moments[0]["activations"] = activations(moments[0].get("activations", 0))
        if self._ema is not None:
            self._meter.restart()
            self._ema.update(self._stage.config.ema.every)
            moments.append(dict(self._meter.peak))
        return max(moments, key=lambda parts: sum(parts.values()))

    def backward_activations(self) -> int:
        """Return the bytes of activations at the peak of a first forward and backward pass."""
        self._meter.restart()
        self._compute()
        for weight in self._weights:
            weight.grad = None
        self._method.after_step()
        return self._meter.peak.get("activations", 0)

    def _with_all_gradients(self) -> list[dict[str, int]]:
        """Run backward and the optimizer twice: the second time finds the optimizer state."""
        self._meter.restart()
        self._updater.begin(0)
        stage = self._stage
        count = ENOUGH_MICROBATCHES if stage.mixes_shapes else stage.config.training.accumulation
        for _ in range(min(count, ENOUGH_MICROBATCHES)):
            self._compute()
        backward = dict(self._meter.peak)
        self._update()
        self._meter.restart()
        self._updater.begin(1)
        self._update(is_flagged=self._is_flagged)
        move = dict(self._meter.peak)
        self._updater.optimizer.zero_grad(set_to_none=True)
        self._method.after_step()
        statistics = self._meter.alive().get("optimizer", 0)
        return [backward | {"optimizer": statistics}, move]

    def _with_fused_backward(self) -> list[dict[str, int]]:
        """Run two steps with the fused backward pass."""
        assert self._fused_backward is not None
        for step in range(2):
            self._meter.restart()
            self._updater.begin(step)
            self._compute(is_flagged=self._is_flagged and step > 0)
            self._fused_backward.finish()
            self._method.after_step()
            self._assign_optimizer_state()
        return [dict(self._meter.peak)]

    def _compute(self, *, is_flagged: bool = False) -> None:
        self._method.begin_microbatch()
        with autocast_of(self._stage.config, DEVICE):
            loss = loss_of(self._objective, self._batch(), seed=0, step=0, device=DEVICE)
        if is_flagged and self._fused_backward is not None:
            self._fused_backward.begin(loss.value.detach())
        value = self._scale.scaled(loss.value) if self._scale else loss.value
        with loss.recomputation():
            value.backward()  # type: ignore[no-untyped-call] # torch's

    def _update(self, *, is_flagged: bool = False) -> None:
        """Step as `Engine.clip_gradients` and `Engine.step`, but keep the gradients."""
        gradients = [weight.grad for weight in self._weights if weight.grad is not None]
        with self._meter.assigning_to("optimizer"):
            if self._scale is not None:
                self._scale.unscale(gradients)
            norm = torch.linalg.vector_norm(gradient_norms(gradients))
            largest = self._stage.config.training.gradient_clipping
            if largest > 0 and not self._updater.takes_divisor(norm.device):
                clip(gradients, norm, largest)
            self._updater.update_all(not_finite(norm) if is_flagged else None)
        self._assign_optimizer_state()
        for weight in self._weights:
            self._note_gradient(weight)

    def _note_gradient(self, weight: Tensor) -> None:
        if weight.grad is not None:
            self._meter.assign(weight.grad, "gradients")

    def _assign_optimizer_state(self) -> None:
        """Assign the optimizer state to its part; what can be paged out counts as paged out."""
        is_paged = self._stage.model.kind == "cuda" and isinstance(
            self._stage.config.optimizer, PagedAdamW8bit
        )
        for tensor in tensors_in(list(self._updater.optimizer.state.values())):
            if tensor.is_meta:
                self._meter.assign(tensor, "optimizer")
                if is_paged and tensor.numel() >= LEAST_PAGED:
                    self._meter.move(tensor, "host")


def use_foreach(optimizer: torch.optim.Optimizer) -> None:
    """Make a torch optimizer update all weights at once, as it does on a GPU."""
    for group in optimizer.param_groups:
        if "foreach" in group and group["foreach"] is None and not group.get("fused"):
            group["foreach"] = True
