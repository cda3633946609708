"""Weights that a model had before training, for computing with the base model in between."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn


@dataclass
class OriginalWeights:
    """Copies of trained parameters as they were, by name.

    On any device; copies on another device than the parameters' are transferred when they are used.
    """

    parameters: Mapping[str, nn.Parameter]
    copies: dict[str, Tensor]
    _was_pinned: bool = field(default=False, init=False)

    @staticmethod
    def of(parameters: Mapping[str, nn.Parameter], device: torch.device) -> "OriginalWeights":
        """Copy the current values of parameters to a device."""
        copies = {
            name: parameter.detach().to(device, copy=True) for name, parameter in parameters.items()
        }
        return OriginalWeights(parameters, copies)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Put the copies into the parameters within the context; then the same memory as before.

        Nothing is overwritten, so gradients and graphs that wait for their backward stay valid.
        """
        self._pin()
        trained = {name: parameter.data for name, parameter in self.parameters.items()}
        # Autocast caches casts by parameter, not by memory: it would reuse casts of the other
        # weights, and casts made without gradients.
        torch.clear_autocast_cache()
        try:
            for name, parameter in self.parameters.items():
                copy = self.copies[name]
                # Transfers from pinned memory are asynchronous.
                parameter.data = copy.to(parameter.device, non_blocking=parameter.is_cuda)
            with torch.no_grad():
                yield
        finally:
            for name, parameter in self.parameters.items():
                parameter.data = trained[name]
            torch.clear_autocast_cache()

    def _pin(self) -> None:
        """Pin copies in host memory, once, if the parameters are on a GPU.

        Copies that cannot be pinned stay as they are; their transfer then blocks.
        """
        if self._was_pinned or not any(weight.is_cuda for weight in self.parameters.values()):
            return
        self._was_pinned = True
        for name, copy in self.copies.items():
            if copy.device.type != "cpu":
                continue
            try:
                self.copies[name] = copy.pin_memory()
            except RuntimeError:  # out of pinned memory
                return
