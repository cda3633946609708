"""The step in backward: each weight moves as soon as its gradient is known, which is then freed.

Of all gradients only one is in memory at a time. Not with what needs all of them at once: the norm
of the whole gradient (clipping), and several microbatches.

With fp16 each weight is moved as if its gradient were right, and put back where it has overflown:
on the device, which is asked about all of them in a single read when the step is over. As long as
nothing overflows the weights are those of the normal step, bit for bit. A step with an overflow
differs from the normal one, which moves nothing at all:

- Weights whose own gradients are finite have moved. The others are as they were, with their
  statistics and their own count of steps.
- A count of steps that a group of weights shares goes on if any of them has moved.
- The loss scale falls by as much, once.

Overflows begin somewhere and go on to everything that is computed after it in the backward pass: as
a rule most weights stay, and those near the output may move.
"""

from threading import Lock

import torch
from torch import Tensor, nn

from modules.memory.scaling import LossScale
from modules.optim.snapshot import Kept
from modules.optim.update import Movement


class FusedBackward:
    """Makes every backward pass move the weights, from its construction on.

    To be made after restoring. The hooks ask for their group at the time of the call: one that
    is remembered from before a restore would keep its old learning rate, and nothing would tell.
    scale: of the loss; None where it is not scaled.
    """

    def __init__(self, movement: Movement, scale: LossScale | None) -> None:
        assert movement.moves_alone
        self._movement = movement
        self._scale = scale
        # Of this step: what moved, as it was, and whether its gradient has overflown.
        self._moved: list[tuple[Kept, Tensor]] = []
        # Hooks of weights on a card run in a thread of autograd's own, those of weights in main
        # memory in the one that called backward; both narrow the optimizer's groups meanwhile.
        self._one_at_a_time = Lock()
        for weight in movement.parameters:
            weight.register_post_accumulate_grad_hook(self._move)  # type: ignore[no-untyped-call] # torch's

    def finish(self) -> bool:
        """Ends a step, and tells whether a gradient has overflown. With fp16 reads once."""
        self._movement.finish()
        if not self._moved:
            return False
        flags = _read([flag for _, flag in self._moved])
        wrong = [kept for (kept, _), flag in zip(self._moved, flags, strict=True) if flag]
        for kept in wrong:
            kept.put_back_rest()
        right = [kept for (kept, _), flag in zip(self._moved, flags, strict=True) if not flag]
        self._movement.count_only_for({kept.weight for kept in right}, {k.weight for k in wrong})
        self._moved.clear()
        return bool(wrong)

    @torch.no_grad()
    def _move(self, weight: Tensor) -> None:
        assert isinstance(weight, nn.Parameter)
        with self._one_at_a_time:
            if self._scale is None:
                self._movement.move_one(weight)
            else:
                self._move_if_finite(weight, self._scale)
        weight.grad = None

    def _move_if_finite(self, weight: nn.Parameter, scale: LossScale) -> None:
        assert weight.grad is not None
        overflows = scale.unscale([weight.grad])
        kept = Kept.of(weight, self._movement.optimizer)
        self._movement.move_one(weight)
        kept.put_back_where(overflows > 0)
        self._moved.append((kept.without_copies(), overflows))


def _read(flags: list[Tensor]) -> list[bool]:
    """The one read of a step: all flags at once, on the card if one of them is there."""
    place = next((flag.device for flag in flags if flag.device.type != "cpu"), flags[0].device)
    return [flag > 0 for flag in torch.stack([flag.to(place) for flag in flags]).tolist()]
