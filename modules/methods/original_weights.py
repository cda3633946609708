"""The weights that a model had before its training, to compute with them in between."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn


@dataclass
class OriginalWeights:
    """Copies of trained parameters as they were, by name.

    On any device: those that are not on the parameters' own are copied there when they are used.
    """

    parameters: Mapping[str, nn.Parameter]
    copies: dict[str, Tensor]
    _was_pinned: bool = field(default=False, init=False)

    @staticmethod
    def of(parameters: Mapping[str, nn.Parameter], device: torch.device) -> "OriginalWeights":
        """Copies of what the parameters hold now, kept on a device."""
        copies = {
            name: parameter.detach().to(device, copy=True) for name, parameter in parameters.items()
        }
        return OriginalWeights(parameters, copies)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Meanwhile the parameters hold the copies; afterwards they hold the very same memory.

        Nothing is written over: gradients, and graphs that wait for their backward, stay right.
        """
        self._pin()
        trained = {name: parameter.data for name, parameter in self.parameters.items()}
        # Autocast remembers its casts by parameter, not by memory: it would go on with the casts
        # of the other weights, and with casts made without gradients.
        torch.clear_autocast_cache()
        try:
            for name, parameter in self.parameters.items():
                copy = self.copies[name]
                # From pinned memory they come one after the other, and nobody waits for them.
                parameter.data = copy.to(parameter.device, non_blocking=copy.device.type == "cpu")
            with torch.no_grad():
                yield
        finally:
            for name, parameter in self.parameters.items():
                parameter.data = trained[name]
            torch.clear_autocast_cache()

    def _pin(self) -> None:
        """Puts copies in main memory where a card can read them by itself, if there is a card.

        Once, and for good. What cannot be pinned stays as it is: then whoever uses it waits.
        """
        if self._was_pinned or not any(weight.is_cuda for weight in self.parameters.values()):
            return
        self._was_pinned = True
        for name, copy in self.copies.items():
            if copy.device.type != "cpu":
                continue
            try:
                self.copies[name] = copy.pin_memory()
            except RuntimeError:  # there is too little memory for it
                return
