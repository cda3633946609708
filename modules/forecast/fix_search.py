"""The search for settings that lower a run's peak, one by one and together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from modules.forecast.fixes import Change, applied, candidates, joined
from modules.forecast.forecast import Planner
from onetrainer.config.train import TrainConfig
from onetrainer.messages.memory import fits
from onetrainer.run.events import Forecast

ENOUGH_FIXES = 2
"""So many that fit, and costlier ones are of no interest."""
LEAST_GAIN = 0.99
"""What lowers a peak by less than a hundredth is no cure."""


@dataclass(frozen=True)
class _Found:
    """A change that lowers the peak."""

    change: Change
    peak: int

    def as_fix(self) -> dict[str, Any]:
        """As the event has it."""
        return {
            "changes": dict(self.change.changes),
            "words": self.change.words,
            "cost": self.change.cost,
            "peak_bytes": self.peak,
        }


def with_fixes(plans: Planner, config: TrainConfig, known: Forecast) -> Forecast:
    """A forecast with what lowers its peak, the cheapest in time first.

    config: what it is of, decided. Costly changes are left out where cheaper ones are enough;
    where none is enough alone, several together come first; where nothing is, the nearest.
    """
    search = _Search(plans, config, known)
    found: list[_Found] = []
    for change in candidates(config, on_card=plans.target.kind == "cuda"):
        peak = search.peak(change)
        if peak < known.peak_bytes * LEAST_GAIN:
            found.append(_Found(change, peak))
        if sum(map(search.is_enough, found)) == ENOUGH_FIXES:
            break
    if not any(map(search.is_enough, found)):
        found = search.together(found) + found
    if not any(one.peak <= plans.target.available for one in found):
        found.sort(key=lambda one: one.peak)
    return replace(known, fixes=[one.as_fix() for one in found])


@dataclass(frozen=True)
class _Search:
    """Peaks of a config's changed forms."""

    plans: Planner
    config: TrainConfig
    known: Forecast

    def peak(self, change: Change) -> int:
        """The peak with a change."""
        changed = applied(self.config, change.changes)
        assert changed is not None, "candidates are configs"
        return self.plans.forecast(
            changed, known=self.known.phases, touched=change.touches
        ).peak_bytes

    def is_enough(self, found: _Found) -> bool:
        """Whether a run fits with it."""
        return fits(found.peak, self.plans.target.available)

    def together(self, found: Sequence[_Found]) -> list[_Found]:
        """Changes that are enough together, or as near as they come; none if there is but one.

        The cheapest are taken first, and those that bring nothing beside the others are left out.
        """
        taken: list[Change] = []
        best = _Found(Change({}, "", ""), self.known.peak_bytes)
        for one in found:
            more = joined([*taken, one.change])
            peak = one.peak if not taken else self.peak(more)
            if peak < best.peak * LEAST_GAIN:
                taken, best = [*taken, one.change], _Found(more, peak)
            if self.is_enough(best):
                break
        return [best] if len(taken) > 1 else []
