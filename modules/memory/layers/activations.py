"""Activation offload: a checkpoint's saved inputs on the offload device until backward."""

import weakref
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from modules.memory.layers.transfer import InputTransfer


@dataclass(frozen=True)
class _OffloadedInput:
    """A saved input on the offload device, and a reference to the one saved before it."""

    tensor: Tensor
    before: "weakref.ref[_OffloadedInput] | None"


class SavedInputs:
    """Hooks that offload the inputs of checkpoints, and fetch each for its recomputation.

    Args:
        transfer: Copies the tensors to the offload device and back.
        only_first: Offload only the first tensor of each checkpoint's inputs, which flows from
            layer to layer. The others, such as the time embedding and the text, are the same for
            all layers, which would copy them again and again.
    """

    def __init__(self, transfer: InputTransfer, *, only_first: bool = False) -> None:
        self._transfer = transfer
        self._only_first = only_first
        self._last: weakref.ref[_OffloadedInput] | None = None

    def hooks(self, device: torch.device) -> saved_tensors_hooks:
        """Return the hooks for one checkpoint's forward pass.

        In the non-reentrant form these hooks see only the inputs: tensors computed inside are
        saved under the checkpoint's own hooks.

        Args:
            device: Inputs on other devices stay where they are.
        """
        count = 0

        def pack(tensor: Tensor) -> Tensor | _OffloadedInput:
            nonlocal count
            # Older torch saves an empty tensor of its own before the inputs (`_NoopSaveInputs`).
            if tensor.device != device or not tensor.numel():
                return tensor
            count += 1
            if self._only_first and count > 1:
                return tensor
            offloaded = _OffloadedInput(self._transfer.to_host(tensor), self._last)
            self._last = weakref.ref(offloaded)
            return offloaded

        return saved_tensors_hooks(pack, self._unpack)

    def _unpack(self, saved: Tensor | _OffloadedInput) -> Tensor:
        if isinstance(saved, Tensor):
            return saved
        tensor = self._transfer.to_device(saved.tensor)
        # The backward pass computes the layers in reverse order.
        before = saved.before() if saved.before else None
        if before is not None:
            self._transfer.prefetch([before.tensor])
        return tensor
