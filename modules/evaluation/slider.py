"""The check that a concept slider moves predictions toward its ends."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch

from modules.optim.exported_weights import ExportedWeights
from onetrainer.config.base.amount import Steps
from onetrainer.metrics.slider import Shift, judge, warning_of
from onetrainer.run.events import Event, Validated
from onetrainer.schedules.amounts import Plan, is_due


@dataclass
class SliderEvaluation:
    """The loss and the shift at both ends, at the same latents every time.

    Attributes:
        every: Interval between two of them; one more follows the last step.
        plan: How far the run is after a step, for intervals in epochs or images.
        count: Number of latents.
        measure_one: Measures one of them, by number; the shifts by strength.
        past: Earlier verdicts of the run.
    """

    every: Steps
    steps: int
    plan: Plan
    count: int
    measure_one: Callable[[int], Mapping[float, Shift]]
    autocast: Callable[[], AbstractContextManager[object]]
    exported: ExportedWeights
    warn: Callable[[str], None]
    past: list[Validated] = field(default_factory=list)

    keeps_best = prefers_best = is_required = False

    @property
    def phase_name(self) -> Literal["validating"]:
        return "validating"

    def is_due(self, step: int) -> bool:
        return step == self.steps or is_due(self.every, step, self.plan)

    def is_missing(self, step: int, past_events: Sequence[Event]) -> bool:
        return False  # an untrained slider moves nothing

    def measure(self, step: int, before_each: Callable[[int], None]) -> None:
        shifts = []
        with self.exported.for_samples(), torch.no_grad(), self.autocast():
            for number in range(self.count):
                before_each(number)
                shifts.append(self.measure_one(number))
        ends = {strength: [each[strength] for each in shifts] for strength in shifts[0]}
        self.past.append(judge(step, ends, past=self.past))
        if step == self.steps and (text := warning_of(ends)):
            self.warn(text)

    def events(self) -> list[Event]:
        return [*self.past[-1:]]

    def should_stop_early(self) -> bool:
        return False

    def best_step(self) -> int | None:
        return None

    def summary(self, first: int, step: int, best_files: Sequence[Path]) -> list[str]:
        return [each.message for each in self.past[-1:]]
