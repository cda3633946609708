"""The errors of a loss that is not a number, with what helps."""

from onetrainer.config.run.hardware import Precision
from onetrainer.errors import UserError


def diverged(what: str, precision: Precision | None = None) -> UserError:
    """The error of training. precision: what is computed in, where it is known."""
    others = _finer(precision)
    return UserError(
        f"{what}: training has diverged",
        "Nothing was saved over your last good checkpoint",
        f"Lower the learning rate (optimizer.lr){f', or train in {others}' if others else ''}.",
    )


def no_number(name: str, precision: Precision | None = None) -> UserError:
    """The error of a held-out picture before training."""
    others = _finer(precision)
    return UserError(
        f"{name}: the base model gives no number for the held-out loss, before any training",
        "Expected a base model that computes in this precision",
        f"If the base model's file is sound, try {others} (hardware.precision)."
        if others
        else "Look at the base model's file: it may be damaged, or of another kind than expected.",
    )


def _finer(precision: Precision | None) -> str:
    """The precisions that help against numbers out of range; "" if there is none."""
    return {"fp32": "", "bf16": "fp32"}.get(precision or "", "bf16 or fp32")
