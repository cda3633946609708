"""Search for settings that lower a run's peak memory, one by one and combined."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from modules.forecast.fixes import Change, apply_changes, candidates, combine
from modules.forecast.forecast import Planner
from onetrainer.config.train import TrainConfig
from onetrainer.messages.memory import fits
from onetrainer.run.events import Forecast

MAX_FITTING_FIXES = 2
"""Number of fitting fixes after which costlier ones are not tried."""
MIN_IMPROVEMENT = 0.99
"""Fixes must lower the peak below this fraction of it."""


@dataclass(frozen=True)
class _Fix:
    """A change and the peak with it."""

    change: Change
    peak: int

    def to_json(self) -> dict[str, Any]:
        """Return the fix as in the Forecast event."""
        return {
            "changes": dict(self.change.changes),
            "words": self.change.words,
            "cost": self.change.cost,
            "peak_bytes": self.peak,
        }


def add_fixes(plans: Planner, config: TrainConfig, known: Forecast) -> Forecast:
    """Return the forecast with fixes, the cheapest in time first.

    If no single change is enough, a combination comes first; if nothing fits, the lowest peak.

    plans: Forecasts changed configs. config: Of the forecast, with automatic choices resolved.
    known:
    The forecast without fixes.
    """
    search = _Search(plans, config, known)
    fixes: list[_Fix] = []
    for change in candidates(config, on_card=plans.target.kind == "cuda"):
        peak = search.peak(change)
        if peak < known.peak_bytes * MIN_IMPROVEMENT:
            fixes.append(_Fix(change, peak))
        if sum(map(search.is_enough, fixes)) == MAX_FITTING_FIXES:
            break
    if not any(map(search.is_enough, fixes)):
        fixes = search.combination(fixes) + fixes
    if not any(fix.peak <= plans.target.available for fix in fixes):
        fixes.sort(key=lambda fix: fix.peak)
    return replace(known, fixes=[fix.to_json() for fix in fixes])


@dataclass(frozen=True)
class _Search:
    """Peaks of changed configs."""

    plans: Planner
    config: TrainConfig
    known: Forecast

    def peak(self, change: Change) -> int:
        """Return the peak with a change."""
        changed = apply_changes(self.config, change.changes)
        assert changed is not None, "candidates are configs"
        return self.plans.forecast(
            changed, known=self.known.phases, affected_phases=change.affected_phases
        ).peak_bytes

    def is_enough(self, fix: _Fix) -> bool:
        """Return whether a run fits with the fix."""
        return fits(fix.peak, self.plans.target.available)

    def combination(self, fixes: Sequence[_Fix]) -> list[_Fix]:
        """Return a fix of several changes that fits, or the one with the lowest peak.

        The cheapest changes are added first; those that do not lower the peak are left out. Empty
        if fewer than two changes remain.
        """
        chosen: list[Change] = []
        best = _Fix(Change({}, "", ""), self.known.peak_bytes)
        for fix in fixes:
            combined = combine([*chosen, fix.change])
            peak = fix.peak if not chosen else self.peak(combined)
            if peak < best.peak * MIN_IMPROVEMENT:
                chosen, best = [*chosen, fix.change], _Fix(combined, peak)
            if self.is_enough(best):
                break
        return [best] if len(chosen) > 1 else []
