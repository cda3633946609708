"""Copies between host memory and the GPU: real ones, with storages and gradients of their own."""

from typing import Any

import torch
from torch import Tensor

from tests.pretend.dispatch_mode import FollowStorages
from tests.pretend.ledger import CPU, CUDA, FLOATING, Ledger, is_wrapper, seen
from tests.pretend.numberless import META


class Mover:
    """Moves tensors between the places, as `Tensor.to` of a CUDA build does."""

    def __init__(self, ledger: Ledger, dispatch: FollowStorages) -> None:
        self.ledger = ledger
        self.dispatch = dispatch

    def moved(
        self,
        tensor: Tensor,
        place: torch.device,
        *,
        dtype: torch.dtype | None = None,
        non_blocking: bool = False,
        copy: bool = False,
        memory_format: torch.memory_format = torch.preserve_format,
    ) -> Tensor:
        """The tensor in a place and dtype; itself where it is so already and no copy is asked for.

        Differentiable: the gradient is moved back. As on CUDA the dtype is changed before the move.
        """
        if is_wrapper(type(tensor)):
            return self._moved_wrapper(tensor, place, dtype, non_blocking, copy)
        here = self.ledger.place_of(tensor)
        if here is FLOATING:
            self.ledger.put(tensor, place)
            here = place
        if here is place:
            return tensor.to(dtype or tensor.dtype, copy=copy, memory_format=memory_format)
        if dtype is not None:
            tensor = tensor.to(dtype)
        if torch.is_grad_enabled() and tensor.requires_grad:
            moved: Tensor = _Move.apply(tensor, self, place, non_blocking, memory_format)
            return moved
        return self.copied(tensor, place, non_blocking, memory_format)

    def copied(
        self,
        tensor: Tensor,
        place: torch.device,
        non_blocking: bool = False,
        memory_format: torch.memory_format = torch.preserve_format,
    ) -> Tensor:
        """A copy in another place, without gradient."""
        if non_blocking and seen().type == "mps":
            raise RuntimeError("such copies of Apple's GPUs read memory that may be freed by then")
        size = tensor.numel() * tensor.element_size()
        # Source: ATen's _to_copy makes pinned memory for a copy to the host that need not wait.
        is_pinned = place is CPU or self.is_pinned(tensor)
        self.dispatch.count_transfer(size, place, waits=not (non_blocking and is_pinned))
        if self.ledger.is_numberless and not tensor.is_meta:
            made = torch.empty_like(tensor, device=META, memory_format=memory_format)
            self.ledger.put(made, place)
            return made
        self.dispatch.crossing = place
        try:
            copy = tensor.detach().to(tensor.dtype, copy=True, memory_format=memory_format)
        finally:
            self.dispatch.crossing = None
        if place is CPU and non_blocking:
            self.ledger.pin(copy)
        self.dispatch.order_new_copy(tensor, copy, non_blocking)
        return copy

    def pinned(self, tensor: Tensor) -> Tensor:
        """The tensor in pinned host memory. Raises RuntimeError if it is on the GPU."""
        if self.ledger.place_of(tensor) is CUDA:
            raise RuntimeError(
                "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned"
            )
        if self.is_pinned(tensor):
            return tensor
        copy = tensor.clone()
        self.ledger.pin(copy)
        return copy

    def is_pinned(self, tensor: Tensor) -> bool:
        """Whether a tensor is in pinned host memory."""
        entry = self.ledger.entry_of(tensor)
        return entry is not None and entry.is_pinned

    def _moved_wrapper(
        self,
        tensor: Tensor,
        place: torch.device,
        dtype: torch.dtype | None,
        non_blocking: bool,
        copy: bool,
    ) -> Tensor:
        """A wrapper around its moved parts; a change of dtype is the wrapper's own business."""
        if dtype is not None and dtype != tensor.dtype:
            tensor = tensor.to(dtype)
        if self.ledger.place_of(tensor) is place and not copy:
            return tensor
        names, context = tensor.__tensor_flatten__()  # type: ignore[attr-defined] # wrappers have it
        parts = {
            name: self.moved(getattr(tensor, name), place, non_blocking=non_blocking, copy=copy)
            for name in names
        }
        unflatten = type(tensor).__tensor_unflatten__  # type: ignore[attr-defined] # as above
        made: Tensor = unflatten(parts, context, tensor.size(), tensor.stride())
        return made.requires_grad_(tensor.requires_grad and tensor.is_leaf)


class _Move(torch.autograd.Function):
    """A copy whose gradient is copied back."""

    @staticmethod
    def forward(
        ctx: Any,
        tensor: Tensor,
        mover: Mover,
        place: torch.device,
        non_blocking: bool,
        memory_format: torch.memory_format,
    ) -> Tensor:
        ctx.mover = mover
        ctx.back = mover.ledger.place_of(tensor)
        return mover.copied(tensor, place, non_blocking, memory_format)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        # Source: ATen's _to_copy_backward; the way back is never non_blocking.
        return ctx.mover.moved(gradient, ctx.back), None, None, None, None
