"""Evaluations of a run by step, of images or of prompts."""

from collections.abc import Sequence
from typing import TypeVar

from onetrainer.run.events import Evaluated, Validated

EventT = TypeVar("EventT", Validated, Evaluated)


def with_event(events: Sequence[EventT], event: EventT) -> list[EventT]:
    """Return the events with another one, which replaces one of the same step.

    A first evaluation starts over: earlier ones used other images, prompts or noises, as after a
    resume with other settings.
    """
    by_step: dict[int, EventT] = {old.step: old for old in events if event.verdict != "first"}
    by_step[event.step] = event
    return [by_step[step] for step in sorted(by_step)]


def best_of(events: Sequence[EventT]) -> EventT | None:
    """Return the evaluation that the newest one names as the best; None before the first."""
    return next((event for event in events if event.step == events[-1].best_step), None)
