"""Fused backward pass: weights are updated, and their gradients freed, as soon as they are known.

They are updated together, as many as have gradients of 64 MB: one by one a GPU would wait for the
launches of each. Incompatible with what needs all gradients at once: clipping by the global norm,
and gradient accumulation.

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
precisions, whose gradients are NaN: the weights that are updated together with a broken gradient
are unchanged. Nothing is read then, and counters in host memory may count it.
"""

from collections.abc import Sequence
from threading import Lock

import torch
from torch import Tensor, nn

from modules.memory.scaling import LossScale
from modules.memory.to_device import to_device
from modules.optim.clipping import gradient_norms, not_finite
from modules.optim.snapshot import WeightSnapshot
from modules.optim.update import WeightUpdater

BUCKET_BYTES = 1 << 26
"""Gradients that wait for each other, so that their weights are updated at once."""


class FusedBackward:
    """Hooks that update weights during every backward pass, from construction on.

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
        # Of this step, by device: weights that wait for their update; norms of gradients, with
        # their weights; whether the loss is broken, and a 1.
        self._waiting: dict[torch.device, list[nn.Parameter]] = {}
        self._norms: dict[torch.device, list[tuple[Sequence[nn.Parameter], Tensor]]] = {}
        self._flags: dict[torch.device, tuple[Tensor, Tensor]] = {}
        self._numbers = {weight: number for number, weight in enumerate(updater.parameters)}
        # Hooks of weights on a GPU run in a thread of autograd's own, those of weights in host
        # memory in the thread that called backward; both narrow the optimizer's groups meanwhile.
        self._lock = Lock()
        for weight in updater.parameters:
            weight.register_post_accumulate_grad_hook(self._take)  # type: ignore[no-untyped-call] # torch's

    def begin(self, loss: Tensor) -> None:
        """Begin a step's backward pass, in which broken gradients update nothing.

        loss: Scalar; if it is not finite, the whole step is broken.
        """
        self._loss, self._waiting, self._norms, self._flags = loss, {}, {}, {}

    def norms(self, device: torch.device) -> Tensor:
        """Update what waits; return the norms of this step's gradients, (n,), 0 for no gradient."""
        self._update_waiting()
        total = torch.zeros(len(self._numbers), device=device)
        for found in self._norms.values():
            numbers = torch.tensor([self._numbers[w] for weights, _ in found for w in weights])
            norms = torch.cat([norms for _, norms in found])
            total.index_copy_(0, to_device(numbers, device), to_device(norms, device))
        return total

    def finish(self) -> bool:
        """End a step; return whether a gradient has overflowed. Reads once if scaled."""
        self._update_waiting()
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
    def _take(self, weight: Tensor) -> None:
        """Take a weight whose gradient is known, and update it with those that wait, if enough."""
        assert isinstance(weight, nn.Parameter) and weight.grad is not None
        with self._lock:
            if self._scale is not None:
                self._update_if_finite(weight, self._scale)
                weight.grad = None
                return
            waiting = self._waiting.setdefault(weight.grad.device, [])
            waiting.append(weight)
            if sum(each.nbytes for each in waiting) >= BUCKET_BYTES:
                self._update(waiting)

    @torch.no_grad()
    def _update_waiting(self) -> None:
        with self._lock:
            for waiting in self._waiting.values():
                if waiting:
                    self._update(waiting)

    def _update(self, weights: list[nn.Parameter]) -> None:
        """Update weights on one device together, free their gradients, and empty the list."""
        self._updater.update_some(weights, self._broken(weights))
        for weight in weights:
            weight.grad = None
        weights.clear()

    def _broken(self, weights: Sequence[nn.Parameter]) -> Tensor | None:
        """Return whether the step is broken for these weights, on their device: 1 or 0."""
        if self._loss is None:
            return None
        norms = self._note_norms(weights)
        device = norms.device
        if device not in self._flags:
            # Elsewhere the gradients alone decide, for which nothing has to be copied.
            is_here = self._loss.device == device
            flag = not_finite(self._loss) if is_here else torch.zeros((), device=device)
            self._flags[device] = flag, torch.ones((), device=device)
        flag, one = self._flags[device]
        flag = flag.clone()
        # Sets the flag if a norm is not finite: one operation instead of four.
        torch._amp_foreach_non_finite_check_and_unscale_([norms], flag, one)
        return flag

    def _note_norms(self, weights: Sequence[nn.Parameter]) -> Tensor:
        """Keep the norms of weights' gradients on one device, and return them, (n,)."""
        norms = gradient_norms([weight.grad for weight in weights if weight.grad is not None])
        self._norms.setdefault(norms.device, []).append((tuple(weights), norms))
        return norms

    def _update_if_finite(self, weight: nn.Parameter, scale: LossScale) -> None:
        assert weight.grad is not None
        overflows = scale.unscale([weight.grad])
        self._note_norms([weight])
        snapshot = WeightSnapshot.take(weight, self._updater.optimizer)
        self._updater.update_some([weight])
        snapshot.restore_where(overflows > 0)
        self._updated.append((snapshot.without_copies(), overflows))
