"""Weights that are not finite."""

from collections.abc import Iterable

from torch import Tensor

from modules.memory.to_device import read_flags


def first_broken(weights: Iterable[tuple[str, Tensor]]) -> str:
    """Return the first weight that is not finite, with what it holds; "" if all are."""
    named = [
        (name, weight.detach())
        for name, weight in weights
        if weight.is_floating_point() and not weight.is_meta
    ]
    # float: torch has no isfinite for fp8.
    finite = read_flags([weight.float().isfinite().all() for _, weight in named]) if named else []
    for (name, weight), is_finite in zip(named, finite, strict=True):
        if not is_finite:
            return f"{'NaN' if bool(weight.float().isnan().any()) else 'infinity'} in {name}"
    return ""
