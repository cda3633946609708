"""Validations of a run, with their texts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from statistics import fmean

from onetrainer.run.events import Validated
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
        exported: Of the weights that samples and exported files use.
        without_ema: Of the last step's weights, if the exported ones are their EMA.
    """

    exported: list[Validated] = field(default_factory=list)
    without_ema: list[Validated] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.exported) + len(self.without_ema)

    def add(self, event: Validated) -> None:
        """Add a validation, replacing one of the same step.

        A first validation starts over: earlier ones used other images, levels or noises, as after a
        resume with other settings.
        """
        stored = self.exported if event.weights == "shown" else self.without_ema
        if event.verdict == "first":
            stored.clear()
        stored[:] = sorted(
            [*(old for old in stored if old.step != event.step), event], key=lambda each: each.step
        )

    @property
    def newest(self) -> Validated | None:
        """The last validation; None before the first."""
        return self.exported[-1] if self.exported else None

    @property
    def best(self) -> Validated | None:
        """The validation with the lowest loss; None before the first."""
        newest = self.newest
        if newest is None:
            return None
        return next((event for event in self.exported if event.step == newest.best_step), None)

    @property
    def newest_without_ema(self) -> Validated | None:
        """The newest validation of the weights without EMA; None if they are not measured."""
        newest = self.newest
        events = (event for event in self.without_ema if newest and event.step == newest.step)
        return next(events, None)

    def by_level(self) -> list[LossPart]:
        """Return the newest loss by noise level, from little noise to much."""
        if self.newest is None:
            return []
        now, first = self.newest.by_level, self.exported[0].by_level
        before = first if len(first) == len(now) and len(self.exported) > 1 else []
        losses = _by_name(now)
        return _loss_parts(losses, _by_name(before), losses)

    def by_concept(self) -> tuple[list[LossPart], int]:
        """Return the newest loss by concept, the worst first, and the number of omitted ones."""
        if self.newest is None or len(self.newest.by_concept) < 2:
            return [], 0
        now = self.newest.by_concept
        before = self.exported[0].by_concept if len(self.exported) > 1 else {}
        names = sorted(now, key=lambda name: -now[name])
        worst = names[:_MAX_CONCEPTS]
        found = [
            _with_bands(part, self.newest.concepts.get(name, {}))
            for name, part in zip(worst, _loss_parts(now, before, worst), strict=True)
        ]
        return found, max(0, len(names) - _MAX_CONCEPTS)


def _by_name(levels: list[float]) -> dict[str, float]:
    """Return the losses of a few ranges of timesteps: "0-25 %"."""
    count = len(levels)
    parts = min(count, _MAX_LEVELS)
    edges = [count * index // parts for index in range(parts + 1)] if parts else []
    return {
        f"{round(100 * low / count)}-{round(100 * high / count)} %": fmean(levels[low:high])
        for low, high in pairwise(edges)
    }


def half_band(event: Validated) -> float:
    """Return half of the 95 % band; 0 if it is unknown, as for a single image."""
    return event.error if isfinite(event.error) else 0.0


def facts(validation: Validation) -> list[tuple[str, str, Role]]:
    """Return the known figures: name, text and tone."""
    newest = validation.newest
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
    best = validation.best
    if best is not None:
        lowest = "now" if best.step == newest.step else f"step {best.step:,} · {best.loss:.4f}"
        found.append(("Lowest", lowest, "text"))
    if validation.newest_without_ema is not None:
        raw = validation.newest_without_ema
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
    sign = "+" if change > 0 else "−"
    return f"{sign}{abs(change):.1%}".replace("%", " %")


def _loss_parts(
    now: Mapping[str, float], before: Mapping[str, float], names: Iterable[str]
) -> list[LossPart]:
    found = []
    for name in names:
        was = before.get(name)
        change = now[name] / was - 1 if was else None
        found.append(LossPart(name or _OUTSIDE, now[name], change))
    return found


def _with_bands(part: LossPart, details: Mapping[str, float | None]) -> LossPart:
    """Return a loss part with its bands, if they are known."""
    loss = details.get("loss")
    if loss is None:
        return part
    since, band = details.get("since_start"), details.get("since_start_error")
    was = loss - since if since is not None else 0.0
    return LossPart(
        part.name,
        loss,
        since / was if since is not None and was else None,
        details.get("error") or 0.0,
        is_sure=since is not None and band is not None and abs(since) > band,
    )
