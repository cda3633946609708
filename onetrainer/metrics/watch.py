"""Warnings about steps that are finite and yet look wrong: spikes, no rate, updates that vanish.

A *spike* is a loss or gradient norm that exceeds both `LEAST_FACTOR` times the median of the last
`WINDOW` steps and exp(`DEVIATIONS` · 1.4826 · MAD) times it, where MAD is the median absolute
deviation of the logarithms. Losses vary over decades with the timestep, so that their logarithms
are about normal; 1.4826 MAD estimates the standard deviation whatever single values are.
"""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from onetrainer.run.events import Progress

WINDOW, FEWEST = 100, 20
DEVIATIONS, LEAST_FACTOR = 5.0, 5.0
MAD_TO_DEVIATION = 1.4826
MOST_WARNINGS = 3
"""Spikes of each kind that are reported."""
STEPS_WITHOUT_RATE = 10
STEPS_WITHOUT_ESTIMATE = 100
GROWTH = 1.01
LOST, SAMPLES_LOST = 0.95, 4
"""The fraction of a sampled weight's numbers that an update left unchanged, and how many samples
in a row show it."""


@dataclass
class _Window:
    """The last `WINDOW` values in order of time, and of size."""

    values: deque[float] = field(default_factory=deque)
    ordered: list[float] = field(default_factory=list)

    def add(self, value: float) -> None:
        if len(self.values) == WINDOW:
            del self.ordered[bisect_left(self.ordered, self.values.popleft())]
        self.values.append(value)
        insort(self.ordered, value)


@dataclass
class Watch:
    """Looks at the numbers of steps in order.

    Attributes:
        warn: Reports a warning.
        warmup: Steps of the warm-up, in which a rate of 0 is no surprise.
        full_lr: Maps a step, from 0, to its learning rate without an optimizer's own estimate.
        d0: The optimizer's first estimate, which multiplies the rate; None if it makes none.
    """

    warn: Callable[[str], None]
    warmup: int
    full_lr: Callable[[int], float]
    d0: float | None
    _recent: dict[str, _Window] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _warned: set[str] = field(default_factory=set)

    def take(self, step: Progress, *, unchanged: float | None = None) -> None:
        """Look at a step that is not broken.

        unchanged: The fraction of a weight's numbers that its update left as they were, where it
            was measured.
        """
        self._check_spike("loss", step.loss, step.step)
        if step.gradient_norm is not None:
            self._check_spike("gradient norm", step.gradient_norm, step.step)
        if step.step > self.warmup:
            self._check_rate(step)
            if unchanged is not None:
                self._check_updates(unchanged)

    def _check_spike(self, what: str, value: float, step: int) -> None:
        if value <= 0:  # the negative of a reward has no logarithm
            return
        recent = self._recent.setdefault(what, _Window())
        if len(recent.ordered) >= FEWEST:
            usual = median(recent.ordered)
            excess = math.log(value) - usual
            # The rest only where it matters: this is computed in every step.
            is_spike = excess > math.log(LEAST_FACTOR) and excess > DEVIATIONS * (
                median(abs(each - usual) for each in recent.ordered) * MAD_TO_DEVIATION
            )
            self._counts[what] = self._counts.get(what, 0) + is_spike
            if is_spike and self._counts[what] <= MOST_WARNINGS:
                self.warn(
                    f"step {step}: the {what} is {value:.3g}, {math.exp(excess):.0f} times the"
                    f" median of the last {len(recent.ordered)} steps. One such step does little"
                    " harm; if there are more, lower the learning rate (optimizer.lr)"
                )
        recent.add(math.log(value))

    def _check_rate(self, step: Progress) -> None:
        # Without an estimate the step's rate is the schedule's.
        needs_schedule = self.d0 is not None or step.lr == 0
        full = self.full_lr(step.step - 1) if needs_schedule else step.lr
        if self._is_for(STEPS_WITHOUT_RATE, "no rate", when=full == 0):
            self.warn(
                f"the learning rate is 0 since step {step.step - STEPS_WITHOUT_RATE + 1}: the"
                " schedule has reached zero, so these steps train nothing; raise its minimum"
                " (schedule), or end the run earlier (training.steps)"
            )
        if self.d0 is None or full == 0:
            return
        is_stuck = step.lr / full <= GROWTH * self.d0
        if self._is_for(STEPS_WITHOUT_ESTIMATE, "no estimate", when=is_stuck):
            self.warn(
                f"the optimizer's estimate of the learning rate has not grown from {self.d0:.2g}"
                f" in {STEPS_WITHOUT_ESTIMATE} steps, so hardly anything is trained; raise"
                " optimizer.d0, such as to 1e-5, and leave optimizer.lr at 1"
            )

    def _check_updates(self, unchanged: float) -> None:
        if self._is_for(SAMPLES_LOST, "lost updates", when=unchanged >= LOST):
            self.warn(
                f"{unchanged:.0%} of the updates are too small for the weights' number format and"
                " round away; turn on stochastic rounding (method.stochastic_rounding), keep the"
                " weights in fp32 (method.weights), or raise the learning rate (optimizer.lr)"
            )

    def _is_for(self, times: int, what: str, *, when: bool) -> bool:
        """Count, and return whether something was so this often in a row, for the first time."""
        self._counts[what] = self._counts.get(what, 0) + 1 if when else 0
        is_new = self._counts[what] == times and what not in self._warned
        if is_new:
            self._warned.add(what)
        return is_new
