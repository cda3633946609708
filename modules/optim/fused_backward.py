"""Fused backward pass: each weight is updated, and its gradient freed, as soon as it is known.

Only one gradient is in memory at a time. Incompatible with what needs all of them at once:
clipping by the global norm, and gradient accumulation.

With fp16 each weight is updated as if its gradient were finite, and restored if it has overflowed:
on the device, from which all flags are read at once when the step is over. As long as nothing
overflows, the weights are those of the normal step, bit for bit. A step with an overflow differs
from the normal one, which updates nothing at all:

- Weights whose own gradients are finite are updated. The others are unchanged, with their
  optimizer state and their own step counter.
- A step counter that a group of weights shares increases if any of them is updated.
- The loss scale falls by as much, once.

An overflow spreads to everything that the backward pass computes after it: as a rule most weights
are unchanged, and those near the output may be updated. The same holds of a broken step in other
precisions, whose gradients are NaN; nothing is read then, and counters in host memory may count it.
"""

from threading import Lock

import torch
from torch import Tensor, nn

from modules.memory.scaling import LossScale
from modules.memory.to_device import to_device
from modules.optim.clipping import not_finite
from modules.optim.snapshot import WeightSnapshot
from modules.optim.update import WeightUpdater


class FusedBackward:
    """Hooks that update each weight during every backward pass, from construction on.

    Construct it after restoring a checkpoint. The hooks read their parameter group at each call:
    a reference from before a restore would silently keep the old learning rate.
    scale: the loss scale; None without one.
    """

    def __init__(self, updater: WeightUpdater, scale: LossScale | None) -> None:
        assert updater.updates_independently
        self._updater = updater
        self._scale = scale
        # Of this step: the snapshot of each updated weight, and whether its gradient overflowed.
        self._updated: list[tuple[WeightSnapshot, Tensor]] = []
        self._loss: Tensor | None = None
        # Of this step: the norm of each weight's gradient, whether it is broken, (n,) each, and a
        # 1, by the device they are on.
        self._checks: dict[torch.device, tuple[Tensor, Tensor, Tensor]] = {}
        self._numbers = {weight: number for number, weight in enumerate(updater.parameters)}
        # Hooks of weights on a GPU run in a thread of autograd's own, those of weights in host
        # memory in the thread that called backward; both narrow the optimizer's groups meanwhile.
        self._lock = Lock()
        for weight in updater.parameters:
            weight.register_post_accumulate_grad_hook(self._update)  # type: ignore[no-untyped-call] # torch's

    def begin(self, loss: Tensor) -> None:
        """Begin a step's backward pass, in which broken gradients update nothing.

        loss: Scalar; if it is not finite, the whole step is broken.
        """
        self._loss, self._checks = loss, {}

    def norms(self, device: torch.device) -> Tensor:
        """Return the norms of this step's gradients, (n,), on a device; 0 for no gradient."""
        total = torch.zeros(len(self._numbers), device=device)
        for norms, *_ in self._checks.values():
            total += to_device(norms, device)
        return total

    def finish(self) -> bool:
        """End a step; return whether a gradient has overflowed. Reads once if scaled."""
        self._updater.finish()
        if not self._updated:
            return False
        flags = [flag for _, flag in self._updated]
        # The only read of a step: all flags at once, on the GPU if one of them is there.
        device = next((flag.device for flag in flags if flag.device.type != "cpu"), flags[0].device)
        overflows = torch.stack([flag.to(device) for flag in flags]).tolist()
        snapshots = [snapshot for snapshot, _ in self._updated]
        restored, updated = set(), set()
        for snapshot, overflow in zip(snapshots, overflows, strict=True):
            if overflow > 0:
                snapshot.restore_host_state()
                restored.add(snapshot.weight)
            else:
                updated.add(snapshot.weight)
        self._updater.rewind_counters(updated=updated, restored=restored)
        self._updated.clear()
        return bool(restored)

    @torch.no_grad()
    def _update(self, weight: Tensor) -> None:
        assert isinstance(weight, nn.Parameter)
        with self._lock:
            if self._scale is None:
                self._updater.update_one(weight, self._broken(weight))
            else:
                self._update_if_finite(weight, self._scale)
        weight.grad = None

    def _broken(self, weight: nn.Parameter) -> Tensor | None:
        """Return whether the step is broken for a weight, on its device: 1 or 0."""
        if self._loss is None:
            return None
        norm, flag, one = self._note_norm(weight)
        # Sets the flag if the norm is not finite: one operation instead of four.
        torch._amp_foreach_non_finite_check_and_unscale_([norm], flag, one)
        return flag

    def _note_norm(self, weight: nn.Parameter) -> tuple[Tensor, Tensor, Tensor]:
        """Keep the norm of a weight's gradient; return it with the weight's flag, and a 1."""
        assert weight.grad is not None
        device, number = weight.grad.device, self._numbers[weight]
        if device not in self._checks:
            # One tensor for all, because each one takes at least 512 bytes on a GPU.
            norms, flags = torch.zeros(2, len(self._numbers), device=device)
            one = torch.ones((), device=device)
            # Elsewhere the gradients alone decide, for which nothing has to be copied.
            if self._loss is not None and self._loss.device == device:
                flags += not_finite(self._loss)
            self._checks[device] = norms, flags, one
        norms, flags, one = self._checks[device]
        torch.linalg.vector_norm(weight.grad, dtype=norms.dtype, out=norms[number])
        return norms[number], flags[number], one

    def _update_if_finite(self, weight: nn.Parameter, scale: LossScale) -> None:
        assert weight.grad is not None
        overflows = scale.unscale([weight.grad])
        self._note_norm(weight)
        snapshot = WeightSnapshot.take(weight, self._updater.optimizer)
        self._updater.update_one(weight)
        snapshot.restore_where(overflows > 0)
        self._updated.append((snapshot.without_copies(), overflows))
