"""Autocast for tensors without numbers: torch has none on its meta device.

The operations are those of the card's lists, which are longer than the processor's: norms and
softmax give float32 there, and so decide what is kept for the backward pass.
Source: aten/src/ATen/autocast_mode.h, AT_FORALL_LOWER_PRECISION_FP and AT_FORALL_FP32.
"""

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tests.pretend.patches import Patches

_LOW = """
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d prelu addmm addmv addr
    matmul einsum mm mv linear addbmm baddbmm bmm chain_matmul scaled_dot_product_attention
"""
_WIDE = """
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus
    layer_norm group_norm norm cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss
    hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
    binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample interpolate
    softmax log_softmax cumprod cumsum prod sum
"""


class NumberlessAutocast:
    """Casts operands where autocast is on; a weight's cast is kept until the context ends."""

    def __init__(self) -> None:
        self._low = _functions(_LOW) | {Tensor.__matmul__, Tensor.__rmatmul__}
        self._wide = _functions(_WIDE) | {Tensor.__pow__}
        self._casts: dict[int, tuple[weakref.ref[Tensor], Tensor]] = {}

    def forget(self) -> None:
        """The outermost context has ended."""
        self._casts.clear()

    def cast(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        """The operands as the function takes them."""
        is_low = func in self._low
        if not (is_low or func in self._wide) or not torch.is_autocast_enabled("cpu"):
            return args, dict(kwargs)
        dtype = torch.get_autocast_dtype("cpu") if is_low else torch.float32
        return (
            [self._as(value, dtype) for value in args],
            {name: self._as(value, dtype) for name, value in kwargs.items()},
        )

    def _as(self, value: Any, dtype: torch.dtype) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(self._as(one, dtype) for one in value)
        if not isinstance(value, Tensor) or not value.is_meta or not value.is_floating_point():
            return value
        if value.dtype in (dtype, torch.float64):
            return value
        if dtype == torch.float32 or not _is_weight(value):
            return value.to(dtype)
        known = self._casts.get(id(value))
        if known is None or known[0]() is not value:
            known = self._casts[id(value)] = (weakref.ref(value), value.to(dtype))
        return known[1]


def forget_casts(patches: Patches, autocast: NumberlessAutocast) -> None:
    """Casts of weights are forgotten when torch forgets its own."""
    original = torch.clear_autocast_cache

    def clear() -> None:
        original()
        autocast.forget()

    # autocast calls it by this name when the outermost context ends.
    patches.set(torch, "clear_autocast_cache", clear)


def _is_weight(value: Tensor) -> bool:
    is_leaf = value.requires_grad and value.is_leaf and not value._is_view()
    return is_leaf and value.dtype == torch.float32 and torch.is_autocast_cache_enabled()


def _functions(names: str) -> set[Callable[..., Any]]:
    """Every way in which a program calls these."""
    owners = (torch, functional, Tensor)
    return {
        getattr(owner, name) for owner in owners for name in names.split() if hasattr(owner, name)
    }
