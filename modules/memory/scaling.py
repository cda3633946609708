"""The loss scale of fp16, which keeps small gradients from underflowing.

float16 ends at 6e-8, and gradients are often smaller. The loss is multiplied by the scale before
the backward pass, and the gradients are divided by it afterwards. The scale is halved when a
gradient overflows, and doubled after many steps without an overflow.
Source: Micikevicius et al. 2018, arXiv:1710.03740, section 3.2; numbers as in torch.amp.GradScaler.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from modules.memory.to_device import to_device

INITIAL_SCALE = 2.0**16
GROWTH, BACKOFF, GROWTH_INTERVAL = 2.0, 0.5, 2000
MAX_SCALE = torch.finfo(torch.float32).max  # the scaled loss is float32


class LossScale:
    """The loss scale and its history, kept on the host, so that no step reads it from the device.

    torch's GradScaler keeps it on the device, and reads it twice per step. Here a step reads once:
    whether a gradient has overflowed.
    """

    def __init__(self) -> None:
        self.scale = INITIAL_SCALE
        self._factors: dict[torch.device, Tensor] = {}
        self._good_steps = 0

    def scaled(self, loss: Tensor) -> Tensor:
        """Return the scaled loss, from which the backward pass starts.

        The scale lies in memory that stays, so that a recorded step reads the one of its time.
        """
        if loss.device not in self._factors:
            self._factors[loss.device] = loss.new_full((), self.scale)
        return loss * self._factors[loss.device]

    def unscale(self, gradients: Sequence[Tensor]) -> Tensor:
        """Divide gradients by the scale, in place, and return whether any has overflowed.

        Reads nothing from a device.

        Returns:
            A float32 scalar, 0 if all gradients are finite; on a GPU if one of them is.
        """
        batches: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        for gradient in gradients:
            batches.setdefault((gradient.device, gradient.dtype), []).append(gradient)
        flags = [self._unscale_batch(batch, device) for (device, _), batch in batches.items()]
        if not flags:
            return torch.zeros(())
        # To the GPU, from pinned memory: the only way for which the processor does not wait.
        device = next((flag.device for flag in flags if flag.device.type != "cpu"), flags[0].device)
        return torch.stack([to_device(flag, device) for flag in flags]).sum()

    def update(self, has_overflown: bool) -> None:
        """Set the scale for the next step."""
        if has_overflown:
            self._set(self.scale * BACKOFF)
            self._good_steps = 0
            return
        self._good_steps += 1
        if self._good_steps == GROWTH_INTERVAL:
            self._good_steps = 0
            if self.scale * GROWTH <= MAX_SCALE:
                self._set(self.scale * GROWTH)

    def _set(self, scale: float) -> None:
        self.scale = scale
        for factor in self._factors.values():
            factor.fill_(scale)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint, with the keys of torch's GradScaler."""
        return {
            "scale": self.scale,
            "growth_factor": GROWTH,
            "backoff_factor": BACKOFF,
            "growth_interval": GROWTH_INTERVAL,
            "_growth_tracker": self._good_steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the scale. Raises KeyError if the state is not that of a loss scale."""
        self._set(float(state["scale"]))
        self._good_steps = int(state["_growth_tracker"])

    def _unscale_batch(self, gradients: list[Tensor], device: torch.device) -> Tensor:
        """Unscale gradients on one device and in one dtype; as `unscale`."""
        overflows = torch.zeros((), device=device)
        inverse = torch.full((), 1 / self.scale, device=device)  # exact: scales are powers of two
        # What GradScaler calls: one pass over each gradient, without a copy of it.
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, overflows, inverse)
        return overflows
