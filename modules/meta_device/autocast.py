"""Autocast for the meta device, where torch has none: the same casts save the same tensors.

Covers those operations of torch's own lists (aten/src/ATen/autocast_mode.h) that this program uses.
The GPU's list is longer than the CPU's: norms, softmax and upsampling are float32 there.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

DeviceKind = Literal["cuda", "cpu"]

_LOW_PRECISION = frozenset(
    {
        functional.linear,
        functional.conv1d,
        functional.conv2d,
        functional.conv3d,
        functional.conv_transpose2d,
        functional.scaled_dot_product_attention,
        torch.matmul,
        torch.mm,
        torch.mv,
        torch.bmm,
        torch.addmm,
        torch.baddbmm,
        torch.einsum,
        Tensor.matmul,
        Tensor.__matmul__,
        Tensor.__rmatmul__,
        Tensor.mm,
        Tensor.mv,
        Tensor.bmm,
        Tensor.addmm,
        Tensor.baddbmm,
    }
)
_FLOAT32: dict[DeviceKind, frozenset[Callable[..., Any]]] = {
    "cpu": frozenset({functional.mse_loss, functional.smooth_l1_loss, functional.huber_loss}),
    "cuda": frozenset(
        {
            functional.layer_norm,
            functional.group_norm,
            functional.softmax,
            functional.interpolate,
            functional.mse_loss,
            functional.l1_loss,
            functional.smooth_l1_loss,
            functional.huber_loss,
            functional.softplus,
            functional.cosine_similarity,
            torch.layer_norm,
            torch.group_norm,
            torch.softmax,
            Tensor.softmax,
            torch.sum,
            Tensor.sum,
            torch.prod,
            Tensor.prod,
            torch.norm,
            torch.linalg.vector_norm,
            torch.exp,
            Tensor.exp,
            torch.log,
            Tensor.log,
            torch.pow,
            Tensor.pow,
            Tensor.__pow__,
            torch.rsqrt,
            Tensor.rsqrt,
            torch.reciprocal,
            Tensor.reciprocal,
            torch.cumsum,
            Tensor.cumsum,
        }
    ),
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
        self, func: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the operands as the function receives them."""
        is_low_precision = func in _LOW_PRECISION or getattr(func, "__name__", "") == "_attention"
        if not (is_low_precision or func in self._float32) or not torch.is_autocast_enabled(_TYPE):
            return args, named
        dtype = torch.get_autocast_dtype(_TYPE) if is_low_precision else torch.float32
        return self._cast_all(args, dtype), {
            key: self._cast_one(one, dtype) for key, one in named.items()
        }

    def _cast_all(self, values: tuple[Any, ...], dtype: torch.dtype) -> tuple[Any, ...]:
        return tuple(self._cast_one(value, dtype) for value in values)

    def _cast_one(self, value: Any, dtype: torch.dtype) -> Any:  # noqa: ANN401 - any operand
        if isinstance(value, list | tuple):
            return type(value)(self._cast_all(tuple(value), dtype))
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
        return self._cast_weight(value, dtype) if is_cached else value.to(dtype)

    def _cast_weight(self, weight: Tensor, dtype: torch.dtype) -> Tensor:
        """Return a weight's cast, made once in each context."""
        key = id(weight), weight.untyped_storage()._cdata
        known = self._cached_casts.get(key)
        if known is None or known[0]() is not weight:
            known = weakref.ref(weight), weight.to(dtype)
            self._cached_casts[key] = known
        return known[1]
