"""The loss scale of fp16: gradients are made larger, so that small ones do not vanish.

float16 ends at 6e-8, and gradients are often smaller. The loss is multiplied before the backward
pass and the gradients are divided after it. The scale is halved when a gradient has overflown and
doubled after many steps in which none has.
Source: Micikevicius et al. 2018, arXiv:1710.03740, section 3.2; numbers as in torch.amp.GradScaler.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from modules.memory.to_device import sent

FIRST = 2.0**16
GROWTH, BACKOFF, INTERVAL = 2.0, 0.5, 2000
LARGEST = torch.finfo(torch.float32).max  # the loss is float32, and so is what it becomes


class LossScale:
    """The scale, and its history; it is known on the host, so that nobody has to ask the device.

    torch's GradScaler keeps it on the device, and reads it there twice in each step. Here
    a step has one read in all: whether a gradient has overflown.
    """

    def __init__(self) -> None:
        self.scale = FIRST
        self._good_steps = 0

    def scaled(self, loss: Tensor) -> Tensor:
        """What the backward pass begins with."""
        return loss * self.scale

    def unscale(self, gradients: Sequence[Tensor]) -> Tensor:
        """Divides gradients by the scale, in place; tells whether any of them has overflown.

        Returns a float32 scalar that is 0 where all of them are finite, on a graphics card if one
        of them is there. Nothing is read from a device.
        """
        alike: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        for gradient in gradients:
            alike.setdefault((gradient.device, gradient.dtype), []).append(gradient)
        flags = [self._unscaled(own, device) for (device, _), own in alike.items()]
        if not flags:
            return torch.zeros(())
        # To the card, and from pinned memory: the processor waits for no other way.
        place = next((flag.device for flag in flags if flag.device.type != "cpu"), flags[0].device)
        return torch.stack([sent(flag, place) for flag in flags]).sum()

    def update(self, has_overflown: bool) -> None:
        """Sets the scale for the next step."""
        if has_overflown:
            self.scale *= BACKOFF
            self._good_steps = 0
            return
        self._good_steps += 1
        if self._good_steps == INTERVAL:
            self._good_steps = 0
            if self.scale * GROWTH <= LARGEST:
                self.scale *= GROWTH

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds, by the names that torch's GradScaler has for it."""
        return {
            "scale": self.scale,
            "growth_factor": GROWTH,
            "backoff_factor": BACKOFF,
            "growth_interval": INTERVAL,
            "_growth_tracker": self._good_steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes a scale up again. Raises KeyError for a state that is no scale's."""
        self.scale = float(state["scale"])
        self._good_steps = int(state["_growth_tracker"])

    def _unscaled(self, gradients: list[Tensor], device: torch.device) -> Tensor:
        """As `unscale`, of gradients on one device and in one dtype."""
        overflows = torch.zeros((), device=device)
        inverse = torch.full((), 1 / self.scale, device=device)  # exact: scales are powers of two
        # What GradScaler calls: one pass over each gradient, and no copy of it.
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, overflows, inverse)
        return overflows
