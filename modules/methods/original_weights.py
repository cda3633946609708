"""The weights that a model had before its training, to compute with them in between."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class OriginalWeights:
    """Copies of trained parameters as they were, by name.

    On any device: those that are not on the parameters' own are copied there when they are used.
    """

    parameters: Mapping[str, nn.Parameter]
    copies: Mapping[str, Tensor]

    @staticmethod
    def of(parameters: Mapping[str, nn.Parameter], device: torch.device) -> "OriginalWeights":
        """Copies of what the parameters hold now, kept on a device."""
        copies = {
            name: parameter.detach().to(device, copy=True) for name, parameter in parameters.items()
        }
        return OriginalWeights(parameters, copies)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Meanwhile the parameters hold the copies; afterwards they hold the very same memory.

        Nothing is written over: gradients, and graphs that wait for their backward, stay right.
        """
        trained = {name: parameter.data for name, parameter in self.parameters.items()}
        # Autocast remembers its casts by parameter, not by memory: it would go on with the casts
        # of the other weights, and with casts made without gradients.
        torch.clear_autocast_cache()
        try:
            for name, parameter in self.parameters.items():
                parameter.data = self.copies[name].to(parameter.device)
            with torch.no_grad():
                yield
        finally:
            for name, parameter in self.parameters.items():
                parameter.data = trained[name]
            torch.clear_autocast_cache()
