"""Lengths and intervals of the draft in steps."""

import math
from dataclasses import dataclass

from onetrainer.config.base.amount import Amount, parse_amount
from onetrainer.messages.durations import format_duration
from onetrainer.messages.formatting import counted, format_epochs
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


def steps_in(value: object, plan: EvenPlan | None, seconds: float = 0.0) -> int | None:
    """Return a value of the draft in steps; None if it is none or that is not known.

    seconds: Of a step; 0 if that is not known.
    """
    amount = parse_amount(value) if isinstance(value, str) else value
    if isinstance(amount, Amount):
        is_known = seconds if amount.unit == "minutes" else plan
        return steps_of(amount, plan, seconds or None) if is_known else None
    return amount if isinstance(amount, int) else None


def amount_note(value: object, plan: EvenPlan | None, seconds: float) -> str:
    """Return a value of the draft in the other units that are known: "about 2 epochs, 5 min"."""
    steps, amount = steps_in(value, plan, seconds), parse_amount(str(value))
    if not steps:
        return ""
    unit = amount.unit if isinstance(amount, Amount) else "steps"
    others = [] if unit == "steps" else [counted(steps, "step")]
    if plan is not None and unit != "epochs":
        others.append(format_epochs(steps / plan.steps_per_epoch))
    if seconds and unit != "minutes":
        others.append(format_duration(steps * seconds))
    return f"about {', '.join(others)}" if others else ""


def amount_text(value: object) -> str:
    """Return a value of the draft as text: "1,000 steps"; "" if it is none, or 0."""
    amount = parse_amount(value) if isinstance(value, str) else value
    if isinstance(amount, Amount):
        return str(amount)
    return counted(amount, "step") if isinstance(amount, int) and amount > 0 else ""
