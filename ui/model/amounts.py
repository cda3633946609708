"""Lengths and intervals of the draft in steps."""

import math
from dataclasses import dataclass

from onetrainer.config.base.amount import Amount, parse_amount
from onetrainer.messages.formatting import counted
from onetrainer.schedules.amounts import steps_of


@dataclass(frozen=True)
class EvenPlan:
    """A run whose epochs all have the same steps, and whose steps have the same images."""

    steps_per_epoch: int
    images_per_step: int

    def epoch_of(self, step: int) -> int:
        return step // self.steps_per_epoch

    def images_before_step(self, step: int) -> int:
        return step * self.images_per_step


def even_plan(images: int, images_per_step: int) -> EvenPlan | None:
    """Return the plan of so many images, as one bucket; None without any."""
    if images < 1 or images_per_step < 1:
        return None
    return EvenPlan(math.ceil(images / images_per_step), images_per_step)


def steps_in(value: object, plan: EvenPlan | None) -> int | None:
    """Return a value of the draft in steps; None if it is none or that is not known."""
    amount = parse_amount(value) if isinstance(value, str) else value
    if isinstance(amount, Amount):
        return None if plan is None else steps_of(amount, plan)
    return amount if isinstance(amount, int) else None


def amount_text(value: object) -> str:
    """Return a value of the draft as text: "1,000 steps"; "" if it is none, or 0."""
    amount = parse_amount(value) if isinstance(value, str) else value
    if isinstance(amount, Amount):
        return str(amount)
    return counted(amount, "step") if isinstance(amount, int) and amount > 0 else ""
