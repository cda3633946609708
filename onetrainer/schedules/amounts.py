"""Amounts of training as numbers of steps, and when an interval falls due."""

import operator
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from onetrainer.config.base.amount import MOST, Amount, InSteps, Steps, Unit
from onetrainer.config.base.section import Section

AnySection = TypeVar("AnySection", bound=Section)
_GUESSED_STEPS: Mapping[Unit, int] = {"epochs": 100, "images": 1, "minutes": 60}
"""Steps of one, where the images or the speed are not known."""


class Plan(Protocol):
    """How far a run is after a number of steps."""

    def epoch_of(self, step: int) -> int:
        """Return the epoch of a step, from 0; thus how many are complete before it."""
        ...

    def images_before_step(self, step: int) -> int: ...


def steps_of(amount: Amount, plan: Plan | None, seconds: float | None = None) -> int:
    """Return after how many steps an amount is reached; a guess without a plan.

    seconds: Of a step; None for a guess. At least one step is made in any time.
    """
    if amount.unit == "minutes":
        each = seconds or 60 / _GUESSED_STEPS["minutes"]
        return min(MOST, max(1, round(amount.count * 60 / each)))
    if plan is None:
        return min(MOST, round(amount.count * _GUESSED_STEPS[amount.unit]))
    done, high = _measure(amount.unit, plan), 1
    while done(high) < amount.count and high < MOST:
        high *= 2
    return min(MOST, bisect_left(range(high), amount.count, key=done))


def is_due(every: Steps, step: int, plan: Plan) -> bool:
    """Return whether an interval ends with the last of `step` steps; never if it is 0."""
    if isinstance(every, int):
        return every > 0 and step % every == 0
    done = _measure(every.unit, plan)
    return done(step) // every.count > done(step - 1) // every.count


def intervals_in(every: Steps, steps: int, plan: Plan) -> int:
    """Return how many intervals end within a number of steps; none if it is 0."""
    if isinstance(every, int):
        return steps // every if every else 0
    return int(_measure(every.unit, plan)(steps) // every.count)


def in_steps(
    section: AnySection, convert: Callable[[Amount], int], *, with_intervals: bool = False
) -> AnySection:
    """Return a section with every length as a number of steps, and every interval in minutes.

    with_intervals: Whether other intervals are converted too; those of epochs may have different
        numbers of steps.
    """
    marks = {key: field.metadata for key, field in type(section).model_fields.items()}
    changes = {}
    for key, value in section:
        is_interval = any(isinstance(mark, InSteps) and mark.repeats for mark in marks[key])
        in_time = isinstance(value, Amount) and value.unit == "minutes"
        if with_intervals or in_time or not is_interval:
            changed = _in_steps(value, convert, with_intervals)
            if changed is not value:
                changes[key] = changed
    return section.model_copy(update=changes) if changes else section


def lengths(section: Section) -> list[Amount]:
    """Return the lengths of a section that are not in steps yet."""
    found: list[Amount] = []

    def take(amount: Amount) -> int:
        found.append(amount)
        return 0

    in_steps(section, take)
    return found


def known_steps(section: Section, plan: Plan) -> dict[str, int]:
    """Return the steps of each length and interval that is not in minutes, by its text."""
    found: dict[str, int] = {}

    def take(amount: Amount) -> int:
        if amount.unit != "minutes":
            found[str(amount)] = max(1, steps_of(amount, plan))
        return 1

    in_steps(section, take, with_intervals=True)
    return found


def estimated(
    section: AnySection, known: Mapping[str, int] = {}, seconds: float | None = None
) -> AnySection:
    """Return a section in steps for an estimate.

    known: Steps of amounts, see `known_steps`; others are guessed. seconds: See `steps_of`.
    """

    def convert(amount: Amount) -> int:
        return known.get(str(amount)) or max(1, steps_of(amount, None, seconds))

    return in_steps(section, convert, with_intervals=True)


def _in_steps(value: object, convert: Callable[[Amount], int], with_intervals: bool) -> object:
    if isinstance(value, Amount):
        return convert(value)
    if isinstance(value, Section):
        return in_steps(value, convert, with_intervals=with_intervals)
    if isinstance(value, tuple):
        changed = tuple(_in_steps(each, convert, with_intervals) for each in value)
        return changed if any(map(operator.is_not, changed, value)) else value
    if isinstance(value, dict):
        by_key = {key: _in_steps(each, convert, with_intervals) for key, each in value.items()}
        return by_key if any(by_key[key] is not value[key] for key in value) else value
    return value


def _measure(unit: Unit, plan: Plan) -> Callable[[int], int]:
    """Return what counts a unit before a step."""
    return plan.epoch_of if unit == "epochs" else plan.images_before_step
