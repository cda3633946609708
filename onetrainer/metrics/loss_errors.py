"""Errors for a loss that is not a finite number, with remedies."""

from onetrainer.config.run.hardware import Precision
from onetrainer.errors import UserError


def diverged(what: str, precision: Precision | None = None) -> UserError:
    """Return the error for training loss. precision: The compute precision; None if unknown."""
    alternatives = _finer(precision)
    return UserError(
        f"{what}: training has diverged",
        "Your last good checkpoint was not overwritten",
        "Lower the learning rate (optimizer.lr)"
        f"{f', or train in {alternatives}' if alternatives else ''}.",
    )


def not_a_number(name: str, precision: Precision | None = None) -> UserError:
    """Return the error for the loss of a validation image before training."""
    alternatives = _finer(precision)
    return UserError(
        f"{name}: the base model's validation loss is not a finite number before training starts",
        "Expected a base model that works in the chosen precision",
        f"If the base model's file is intact, try {alternatives} (hardware.precision)."
        if alternatives
        else "Check the base model's file: it may be damaged, or not the expected model.",
    )


def _finer(precision: Precision | None) -> str:
    """Return the precisions that avoid overflow; "" if there is none."""
    return {"fp32": "", "bf16": "fp32"}.get(precision or "", "bf16 or fp32")
