"""Autocast for the meta device, where torch has none: the same casts save the same tensors.

Covers those operations of torch's own lists (aten/src/ATen/autocast_mode.h) that this program uses.
The GPU's list is longer than the CPU's: norms, softmax and upsampling are float32 there.
"""

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

DeviceKind = Literal["cuda", "cpu"]


def _functions(names: str) -> frozenset[Callable[..., Any]]:
    """Return every public function of torch with one of these names."""
    owners = (torch, functional, Tensor)
    return frozenset(
        getattr(owner, name) for name in names.split() for owner in owners if hasattr(owner, name)
    )


_LOW_PRECISION = _functions(
    "linear conv1d conv2d conv3d conv_transpose2d scaled_dot_product_attention"
    " matmul mm mv bmm addmm baddbmm einsum __matmul__ __rmatmul__"
)
_LOSSES = "mse_loss smooth_l1_loss huber_loss"
_FLOAT32: dict[DeviceKind, frozenset[Callable[..., Any]]] = {
    "cpu": _functions(_LOSSES),
    "cuda": _functions(
        f"{_LOSSES} l1_loss layer_norm group_norm softmax interpolate softplus cosine_similarity"
        " sum prod norm exp log pow __pow__ rsqrt reciprocal cumsum"
    )
    | {torch.linalg.vector_norm},
}
CAST_FUNCTIONS = _LOW_PRECISION.union(*_FLOAT32.values())
"""Every function whose operands may be cast."""
_TYPE = "cpu"
"""The type of device whose autocast is asked: imagined devices are of this one."""


class Autocast:
    """Casts operands where autocast is on, and caches casts of weights as torch does."""

    def __init__(self, kind: DeviceKind) -> None:
        self._float32 = _FLOAT32[kind]
        # By weight and storage, because a weight may get another storage for a while.
        self._cached_casts: dict[tuple[int, int], tuple[weakref.ref[Tensor], Tensor]] = {}

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Clear this cache whenever torch clears its own, at the end of each autocast context."""
        clear = torch.clear_autocast_cache

        def clear_both() -> None:
            clear()
            self._cached_casts.clear()

        # autocast calls it by this name when the outermost context ends; there is no other hook.
        torch.clear_autocast_cache = clear_both
        try:
            yield
        finally:
            torch.clear_autocast_cache = clear
            self._cached_casts.clear()

    def cast(
        self, func: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the operands as the function receives them."""
        is_low_precision = func in _LOW_PRECISION
        if not (is_low_precision or func in self._float32) or not torch.is_autocast_enabled(_TYPE):
            return args, dict(named)
        dtype = torch.get_autocast_dtype(_TYPE) if is_low_precision else torch.float32
        return (
            tuple(self._cast(value, dtype) for value in args),
            {name: self._cast(value, dtype) for name, value in named.items()},
        )

    def _cast(self, value: Any, dtype: torch.dtype) -> Any:  # noqa: ANN401 - any operand
        if isinstance(value, list | tuple):
            return type(value)(self._cast(each, dtype) for each in value)
        is_castable = isinstance(value, Tensor) and value.is_meta and value.is_floating_point()
        if not is_castable or value.dtype in (dtype, torch.float64):
            return value
        is_cached = (
            dtype != torch.float32
            and value.dtype == torch.float32
            and value.requires_grad
            and value.is_leaf
            and not value._is_view()
            and torch.is_autocast_cache_enabled()
        )
        if not is_cached:
            return value.to(dtype)
        key = id(value), value.untyped_storage()._cdata
        known = self._cached_casts.get(key)
        if known is None or known[0]() is not value:
            known = self._cached_casts[key] = weakref.ref(value), value.to(dtype)
        return known[1]
