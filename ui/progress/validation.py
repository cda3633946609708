"""Validations of a run, with their texts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean

from onetrainer.run.events import Validated
from ui.progress.history import best_of, with_event
from ui.theme.palette import Role

VERDICTS: dict[str, tuple[str, Role]] = {
    "first": ("first validation", "dim"),
    "improving": ("improving", "good"),
    "flat": ("no significant change", "dim"),
    "overfitting": ("overfitting", "warning"),
}
_MAX_CONCEPTS, _MAX_LEVELS = 4, 5
_OUTSIDE = "(no subfolder)"


@dataclass(frozen=True)
class LossPart:
    """Loss of one concept or noise level.

    Attributes:
        error: Half of the 95 % band; 0 if unknown.
        change: Relative change since the first validation; None if there is none.
        is_sure: Whether the change is larger than its band.
    """

    name: str
    loss: float
    change: float | None = None
    error: float = 0.0
    is_sure: bool = False


@dataclass
class Validation:
    """All validations of a run by step.

    Attributes:
        events: Of the weights that samples and exported files use.
        without_ema: Of the last step's weights, if the exported ones are their EMA.
    """

    events: list[Validated] = field(default_factory=list)
    without_ema: list[Validated] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.events) + len(self.without_ema)

    def add(self, event: Validated) -> None:
        """Add a validation, replacing one of the same step."""
        if event.weights == "sampling":
            self.events = with_event(self.events, event)
        else:
            self.without_ema = with_event(self.without_ema, event)

    @property
    def newest(self) -> Validated | None:
        """The last validation; None before the first."""
        return self.events[-1] if self.events else None

    @property
    def best(self) -> Validated | None:
        """The validation with the lowest loss; None before the first."""
        return best_of(self.events)

    @property
    def newest_without_ema(self) -> Validated | None:
        """The newest validation of the weights without EMA; None if they are not measured."""
        step = self.newest.step if self.newest else None
        return next((event for event in self.without_ema if event.step == step), None)

    def by_level(self) -> list[LossPart]:
        """Return the newest loss by noise level, from little noise to much."""
        if self.newest is None:
            return []
        now, first = self.newest.by_level, self.events[0].by_level
        is_comparable = len(first) == len(now) and len(self.events) > 1
        before = _by_name(first) if is_comparable else {}
        return [_part(name, loss, before.get(name), {}) for name, loss in _by_name(now).items()]

    def by_concept(self) -> tuple[list[LossPart], int]:
        """Return the newest loss by concept, the worst first, and the number of omitted ones."""
        newest = self.newest
        if newest is None or len(newest.by_concept) < 2:
            return [], 0
        before = self.events[0].by_concept if len(self.events) > 1 else {}
        worst = sorted(newest.by_concept.items(), key=lambda item: -item[1])
        parts = [
            _part(name or _OUTSIDE, loss, before.get(name), newest.concepts.get(name, {}))
            for name, loss in worst[:_MAX_CONCEPTS]
        ]
        return parts, len(worst) - len(parts)


def _part(
    name: str, loss: float, before: float | None, details: Mapping[str, float | None]
) -> LossPart:
    """Return a part of the loss. details: As in `Validated.concepts`; empty if unknown."""
    if details.get("loss") is None:
        return LossPart(name, loss, loss / before - 1 if before else None)
    since, band = details.get("since_start"), details.get("since_start_error")
    return LossPart(
        name,
        loss,
        since / (loss - since) if since is not None and loss != since else None,
        details.get("error") or 0.0,
        is_sure=since is not None and band is not None and abs(since) > band,
    )


def _by_name(levels: list[float]) -> dict[str, float]:
    """Return the losses of a few ranges of timesteps: "0-25 %"."""
    count = len(levels)
    parts = min(count, _MAX_LEVELS)
    edges = [count * index // parts for index in range(parts + 1)] if parts else []
    return {
        f"{round(100 * low / count)}-{round(100 * high / count)} %": fmean(levels[low:high])
        for low, high in pairwise(edges)
    }


def facts(validation: Validation) -> list[tuple[str, str, Role]]:
    """Return the known figures: name, text and tone."""
    newest, best, raw = validation.newest, validation.best, validation.newest_without_ema
    if newest is None:
        return []
    found: list[tuple[str, str, Role]] = [
        ("Loss now", with_band(newest.loss, newest.error), "text"),
    ]
    if newest.since_start is not None:
        since, band = newest.since_start, newest.since_start_error or 0.0
        change = f"{'+' if since > 0 else '−'}{with_band(abs(since), band)}"
        # Good or bad only if the change is larger than its band.
        tone: Role = "good" if since + band < 0 else "warning" if since - band > 0 else "text"
        found.append(("Since the start", change, tone))
    if best is not None:
        lowest = "now" if best.step == newest.step else f"step {best.step:,} · {best.loss:.4f}"
        found.append(("Lowest", lowest, "text"))
    if raw is not None:
        found.append(("Without EMA", with_band(raw.loss, raw.error), "text"))
    found.append(("Images", f"{newest.images:,}", "text"))
    return found


def with_band(value: float, error: float) -> str:
    """Format a loss with half of its 95 % band: "0.1391 ± 0.0021"."""
    return f"{value:.4f} ± {error:.4f}" if error else f"{value:.4f}"


def format_change(change: float | None) -> str:
    """Format a relative change: "−3.1 %"; "" for None."""
    if change is None:
        return ""
    return f"{'+' if change > 0 else '−'}{abs(change):.1%}".replace("%", " %")
