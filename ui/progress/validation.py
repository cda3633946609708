"""What held-out pictures have shown of a run, and the words for it. No Tk."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from statistics import fmean

from onetrainer.run.events import Validated
from ui.theme.palette import Role

VERDICTS: dict[str, tuple[str, Role]] = {
    "first": ("first look", "dim"),
    "improving": ("improving", "good"),
    "flat": ("no sure change", "dim"),
    "overfitting": ("overfitting", "warning"),
}
_MOST_CONCEPTS, _MOST_LEVELS = 4, 5
_OUTSIDE = "(no subfolder)"


@dataclass(frozen=True)
class LossPart:
    """One concept's or noise level's part in the loss.

    error: half of its 95 % band; 0 where that is not known.
    change: since the first validation, as a share of what it was then; None where there is none.
    is_sure: whether the change is larger than its band.
    """

    name: str
    loss: float
    change: float | None = None
    error: float = 0.0
    is_sure: bool = False


@dataclass
class Validation:
    """Every validation of a run, in the order of their steps.

    shown: of the weights that samples show. last: of those of the last step beside them.
    """

    exported: list[Validated] = field(default_factory=list)
    without_ema: list[Validated] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.exported) + len(self.without_ema)

    def add(self, event: Validated) -> None:
        """Takes one in; one of the same step takes the place of the other.

        A first one begins anew: it was measured on other pictures, levels or noises than those
        before it, as after a resume with other settings.
        """
        previous = self.exported if event.weights == "shown" else self.without_ema
        if event.verdict == "first":
            previous.clear()
        previous[:] = sorted(
            [*(one for one in previous if one.step != event.step), event], key=lambda one: one.step
        )

    @property
    def newest(self) -> Validated | None:
        """The validation that was made last; None before the first."""
        return self.exported[-1] if self.exported else None

    @property
    def best(self) -> Validated | None:
        """The one with the lowest loss; None before the first."""
        newest = self.newest
        if newest is None:
            return None
        return next((one for one in self.exported if one.step == newest.best_step), None)

    @property
    def newest_without_ema(self) -> Validated | None:
        """That of the last step's weights beside the newest; None where they are not measured."""
        newest = self.newest
        return next((one for one in self.without_ema if newest and one.step == newest.step), None)

    def by_level(self) -> list[LossPart]:
        """The newest loss by noise level, from little noise to much."""
        if self.newest is None:
            return []
        now, first = self.newest.by_level, self.exported[0].by_level
        before = first if len(first) == len(now) and len(self.exported) > 1 else []
        previous = _by_name(now)
        return _loss_parts(previous, _by_name(before), previous)

    def by_concept(self) -> tuple[list[LossPart], int]:
        """The newest loss by concept, the worst first, and how many are left out."""
        if self.newest is None or len(self.newest.by_concept) < 2:
            return [], 0
        now = self.newest.by_concept
        before = self.exported[0].by_concept if len(self.exported) > 1 else {}
        names = sorted(now, key=lambda name: -now[name])
        worst = names[:_MOST_CONCEPTS]
        previous = self.newest.concepts
        found = [
            _with_bands(share, previous.get(name, {}))
            for name, share in zip(worst, _loss_parts(now, before, worst), strict=True)
        ]
        return found, max(0, len(names) - _MOST_CONCEPTS)


def _by_name(levels: list[float]) -> dict[str, float]:
    """Losses by the parts of all timesteps that they stand for, a few at most: "0-25 %"."""
    count = len(levels)
    parts = min(count, _MOST_LEVELS)
    edges = [count * place // parts for place in range(parts + 1)] if parts else []
    return {
        f"{round(100 * low / count)}-{round(100 * high / count)} %": fmean(levels[low:high])
        for low, high in pairwise(edges)
    }


def half_band(one: Validated) -> float:
    """Half of the 95 % band; 0 where it cannot be told, as from a single picture."""
    return one.error if isfinite(one.error) else 0.0


def facts(validation: Validation) -> list[tuple[str, str, Role]]:
    """What is known, as names, figures and the tone of the figures."""
    newest = validation.newest
    if newest is None:
        return []
    found: list[tuple[str, str, Role]] = [
        ("Loss now", with_band(newest.loss, newest.error), "text"),
    ]
    if newest.since_start is not None:
        band = newest.since_start_error or 0.0
        found.append(
            ("Since the start", _difference(newest.since_start, band), _tone(newest, band))
        )
    best = validation.best
    if best is not None:
        words = "now" if best.step == newest.step else f"step {best.step:,} · {best.loss:.4f}"
        found.append(("Lowest", words, "text"))
    if validation.newest_without_ema is not None:
        raw = validation.newest_without_ema
        found.append(("Without average", with_band(raw.loss, raw.error), "text"))
    found.append(("Pictures", f"{newest.images:,}", "text"))
    return found


def with_band(value: float, error: float) -> str:
    """A figure with half of its 95 % band: "0.1391 ± 0.0021"."""
    return f"{value:.4f} ± {error:.4f}" if error else f"{value:.4f}"


def format_change(change: float | None) -> str:
    """A change by a share: "−3.1 %"; "" where there is nothing to compare with."""
    if change is None:
        return ""
    sign = "+" if change > 0 else "−"
    return f"{sign}{abs(change):.1%}".replace("%", " %")


def _difference(value: float, error: float) -> str:
    sign = "+" if value > 0 else "−"
    return f"{sign}{with_band(abs(value), error)}"


def _tone(newest: Validated, band: float) -> Role:
    """Good or bad only where the band leaves no doubt."""
    change = newest.since_start or 0.0
    if change + band < 0:
        return "good"
    return "warning" if change - band > 0 else "text"


def _loss_parts(
    now: Mapping[str, float], before: Mapping[str, float], names: Iterable[str]
) -> list[LossPart]:
    found = []
    for name in names:
        was = before.get(name)
        change = now[name] / was - 1 if was else None
        found.append(LossPart(name or _OUTSIDE, now[name], change))
    return found


def _with_bands(share: LossPart, previous: Mapping[str, float | None]) -> LossPart:
    """A share with what is known of its bands; as it is where nothing is."""
    loss = previous.get("loss")
    if loss is None:
        return share
    since, band = previous.get("since_start"), previous.get("since_start_error")
    was = loss - since if since is not None else 0.0
    return LossPart(
        share.name,
        loss,
        since / was if since is not None and was else None,
        previous.get("error") or 0.0,
        is_sure=since is not None and band is not None and abs(since) > band,
    )
