"""A checkpoint's saved inputs, waiting on the temporary device until the backward pass."""

import weakref
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from modules.memory.layers.transfer import InputTransfer


@dataclass(frozen=True)
class _Waiting:
    """An input on the temporary device, and the one that was saved before it."""

    tensor: Tensor
    before: "weakref.ref[_Waiting] | None"


class SavedInputs:
    """Sends the inputs of checkpoints away, and brings each back when it is computed again.

    only_first: of each checkpoint's inputs only the first tensor goes, which is what flows from
    layer to layer. Others, such as the time's embedding and the text, are the same for all layers,
    which would move them again and again.
    """

    def __init__(self, transfer: InputTransfer, *, only_first: bool = False) -> None:
        self._transfer = transfer
        self._only_first = only_first
        self._last: weakref.ref[_Waiting] | None = None

    def hooks(self, device: torch.device) -> saved_tensors_hooks:
        """Around one checkpoint's forward; inputs that are not on this device stay where they are.

        In the non-reentrant form these hooks see the inputs and nothing else: what is computed
        inside is under the checkpoint's own.
        """
        seen = 0

        def pack(tensor: Tensor) -> Tensor | _Waiting:
            nonlocal seen
            # Older torch saves an empty tensor of its own before the inputs (`_NoopSaveInputs`).
            if tensor.device != device or not tensor.numel():
                return tensor
            seen += 1
            if self._only_first and seen > 1:
                return tensor
            waiting = _Waiting(self._transfer.to_host(tensor), self._last)
            self._last = weakref.ref(waiting)
            return waiting

        return saved_tensors_hooks(pack, self._unpack)

    def _unpack(self, saved: Tensor | _Waiting) -> Tensor:
        if isinstance(saved, Tensor):
            return saved
        tensor = self._transfer.to_device(saved.tensor)
        # The backward pass goes through layers in the opposite order.
        before = saved.before() if saved.before else None
        if before is not None:
            self._transfer.prefetch([before.tensor])
        return tensor
