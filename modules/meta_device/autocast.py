"""Autocast where torch has none, on the meta device: the same casts, so that the same is kept.

Which operations: those of torch's own lists (aten/src/ATen/autocast_mode.h) that the networks and
methods of this program use. The card's list is longer than the processor's: norms, softmax and
upsampling are float32 there.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

DeviceKind = Literal["cuda", "cpu"]

_LOW = frozenset(
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
_WIDE: dict[DeviceKind, frozenset[Callable[..., Any]]] = {
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
CAST_FUNCTIONS = _LOW.union(*_WIDE.values())
"""Every function whose operands may be cast."""
_TYPE = "cpu"
"""The type of device whose autocast is asked: imagined devices are of this one."""


class Autocast:
    """Casts operands where autocast is on, and remembers the casts of weights as torch does."""

    def __init__(self, kind: DeviceKind) -> None:
        self._wide = _WIDE[kind]
        # By weight and memory: a weight that has other memory for a while is another one.
        self._weights: dict[tuple[int, int], tuple[weakref.ref[Tensor], Tensor]] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Within, what torch forgets at the end of each context of autocast is forgotten here."""
        forget = torch.clear_autocast_cache

        def forget_both() -> None:
            forget()
            self._weights.clear()

        # autocast calls it by this name when the outermost context ends; there is no other sign.
        torch.clear_autocast_cache = forget_both
        try:
            yield
        finally:
            torch.clear_autocast_cache = forget
            self._weights.clear()

    def cast(
        self, func: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The operands as the function gets them."""
        is_low = func in _LOW or getattr(func, "__name__", "") == "_attention"
        if not (is_low or func in self._wide) or not torch.is_autocast_enabled(_TYPE):
            return args, named
        dtype = torch.get_autocast_dtype(_TYPE) if is_low else torch.float32
        return self._all(args, dtype), {key: self._one(one, dtype) for key, one in named.items()}

    def _all(self, values: tuple[Any, ...], dtype: torch.dtype) -> tuple[Any, ...]:
        return tuple(self._one(value, dtype) for value in values)

    def _one(self, value: Any, dtype: torch.dtype) -> Any:  # noqa: ANN401 - any operand
        if isinstance(value, list | tuple):
            return type(value)(self._all(tuple(value), dtype))
        is_cast = isinstance(value, Tensor) and value.is_meta and value.is_floating_point()
        if not is_cast or value.dtype in (dtype, torch.float64):
            return value
        is_kept = (
            dtype != torch.float32
            and value.dtype == torch.float32
            and value.requires_grad
            and value.is_leaf
            and not value._is_view()
            and torch.is_autocast_cache_enabled()
        )
        return self._weight(value, dtype) if is_kept else value.to(dtype)

    def _weight(self, weight: Tensor, dtype: torch.dtype) -> Tensor:
        """A weight's cast, made once in each context."""
        key = id(weight), weight.untyped_storage()._cdata
        known = self._weights.get(key)
        if known is None or known[0]() is not weight:
            known = weakref.ref(weight), weight.to(dtype)
            self._weights[key] = known
        return known[1]
