"""What looks at held-out prompts amount to: bands, paired differences, and whether the reward still
means anything.

The same prompts are drawn from the same noise at each look, so looks are compared picture by
picture. The pictures of one prompt change together; what is wanted is how it goes with prompts that
were not trained. So each prompt's pictures are averaged first, and bands come from how the prompts
differ. Of one or two prompts nothing can be said of others, and bands come from how the pictures of
these prompts differ.

The guard calls it *hacking* when the trained rewards together are surely above the base's while
something that nobody trains shows harm: a reward that is only watched is surely below the base's or
below its best so far, by a part of its spread that matters; or pictures have become alike: those of
a prompt, or those of different prompts. *Surely* is beyond the 95 % band of the difference, which
allows for how many rewards are watched and, of the best, for how many looks it is the best of
(Bonferroni's inequality); and so many looks in a row have to show it as patience says. With a
patience of 2, a run of 20 looks in which nothing watched truly changes is called hacking by chance
in about 6 of 100 cases. Of one or two prompts, falls are told and not held against a run: what
falls may be these prompts' own way.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean, stdev

from onetrainer.config.rewards.evaluation import Evaluation
from onetrainer.metrics import validation
from onetrainer.metrics.evaluation_messages import Finding, words_of
from onetrainer.metrics.validation import CONFIDENCE, Band, Measurement, band, difference
from onetrainer.run.events import Evaluated, RewardVerdict

ALL_TOGETHER = ""
"""What stands for the trained rewards together where rewards are told by name."""
FEW_PROMPTS = 3
LEAST_FALL = 0.2
"""Of the spread of a reward over the base's pictures: a smaller fall is no harm, however sure."""
"""Of fewer prompts than these, pictures are what bands come from."""
DISTANCE = "distance"
DIVERSITY, VARIETY = "diversity", "variety"


@dataclass(frozen=True)
class Scored:
    """A picture of a held-out prompt. path: relative to the run folder. seed: of its noise.

    rewards: by name, each in its own units, trained or only watched. total: all trained rewards
    together, as they are weighed.
    """

    prompt: str
    seed: int
    path: str
    rewards: Mapping[str, float]
    total: float


@dataclass(frozen=True)
class Look:
    """The held-out prompts after a step: in the same order, from the same noise, at each look.

    drift: "diversity" of the pictures of a prompt, "variety" of those of different prompts,
    "contrast" and "saturation" as they were measured, and "distance" to the base's noise
    predictions; what was not measured is missing.
    """

    step: int
    images: tuple[Scored, ...]
    drift: Mapping[str, float] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Those of its rewards."""
        return tuple(self.images[0].rewards)

    @cached_property
    def is_finite(self) -> bool:
        """Whether all of its scores are numbers."""
        return all(
            math.isfinite(score)
            for one in self.images
            for score in (one.total, *one.rewards.values())
        )

    @cached_property
    def measured(self) -> dict[str, Measurement]:
        """By reward, and ALL_TOGETHER: each prompt's scores; each picture's, of few prompts."""
        found: dict[str, Measurement] = {}
        is_few = len({one.prompt for one in self.images}) < FEW_PROMPTS
        for name in (ALL_TOGETHER, *self.names):
            scores: dict[str, list[float]] = {}
            for number, one in enumerate(self.images):
                key = str(number) if is_few else one.prompt
                scores.setdefault(key, []).append(one.rewards[name] if name else one.total)
            found[name] = Measurement(self.step, scores)
        return found


@dataclass(frozen=True)
class Judged:
    """What the newest look of a run amounts to; each field as `Evaluated` has it.

    reward: its error is None where there is no band. is_suspicious: whether this look shows harm,
    which is called hacking if enough looks in a row do.
    """

    reward: Band
    best_step: int
    is_best: bool
    verdict: RewardVerdict
    words: str
    rewards: dict[str, dict[str, float | None]]
    drift: dict[str, float]
    is_suspicious: bool
    stops: bool

    def event(self, look: Look) -> Evaluated:
        """The event that tells it. look: the newest."""
        return Evaluated(
            step=look.step,
            reward=self.reward.mean,
            error=self.reward.error or 0.0,
            best_step=self.best_step,
            is_best=self.is_best,
            verdict=self.verdict,
            words=self.words,
            rewards=self.rewards,
            drift=self.drift,
            images=[
                {
                    "path": one.path,
                    "prompt": one.prompt,
                    "seed": one.seed,
                    "rewards": {**one.rewards, ALL_TOGETHER: one.total},
                }
                for one in look.images
            ],
            stops=self.stops,
        )


def judge(
    history: Sequence[Look],
    *,
    trained: Mapping[str, float],
    watched: Mapping[str, float],
    settings: Evaluation,
) -> Judged:
    """What the newest of some looks amounts to, the others being those before it.

    trained, watched: the weights of rewards by name; of a weight below 0, a rise counts as a fall.
    The first look is what is compared with: the base, if it was taken before training.
    *improving*: the trained rewards together are the highest so far, surely (`held_out.judge`).
    *hacking*: see above; never if the guard is off. The best step is where they were highest among
    looks that were not suspicious. Looks with scores that are no numbers are passed over.
    """
    newest = history[-1]
    looks = [one for one in history if one.is_finite]
    if not newest.is_finite:
        return _unmeasured(newest, looks, trained=trained, watched=watched, settings=settings)
    findings = _findings(looks, watched=watched, settings=settings)
    row = _row(findings)
    is_hacking = row >= settings.patience
    clean = [one for one, found in zip(looks, findings, strict=True) if not found.is_suspicious]
    best = max(clean, key=lambda one: one.measured[ALL_TOGETHER].loss)  # the first of equals
    losses = [_losses(one) for one in looks]
    verdict: RewardVerdict
    match validation.judge(losses).verdict:
        case _ if is_hacking:
            verdict = "hacking"
        case "first" | "improving" as same:
            verdict = same
        case _:
            verdict = "flat"
    base = looks[0]
    drift = shares(newest, base)
    stops = is_hacking and settings.guard == "stop"
    return Judged(
        reward=_band(newest, ALL_TOGETHER),
        best_step=best.step,
        is_best=best is newest,
        verdict=verdict,
        words=words_of(
            findings[-1],
            verdict=verdict,
            trained=trained,
            drift=drift,
            base_step=base.step,
            best_step=best.step,
            stops=stops,
        ),
        rewards=_told(newest, base, trained, watched),
        drift=drift,
        is_suspicious=findings[-1].is_suspicious,
        stops=stops,
    )


def stats_of(look: Look) -> dict[str, tuple[float, float]]:
    """The mean and the standard deviation over a look's pictures of each reward.

    What rewards are normalized by, of a look before training. Scores that are no numbers are passed
    over; of none the mean is 0, of one the deviation.
    """
    stats = {}
    for name in look.names:
        scores = [one.rewards[name] for one in look.images]
        scores = [score for score in scores if math.isfinite(score)]
        mean = fmean(scores) if scores else 0.0
        stats[name] = (mean, stdev(scores) if len(scores) > 1 else 0.0)
    return stats


def shares(look: Look, base: Look) -> dict[str, float]:
    """A look's drift as shares of the base's; the distance as it is.

    What the base has nothing of has no share and is missing.
    """
    found = {}
    for name, value in look.drift.items():
        if name == DISTANCE:
            found[name] = value
        elif base.drift.get(name):
            found[name] = value / base.drift[name]
    return found


def _findings(
    looks: Sequence[Look], *, watched: Mapping[str, float], settings: Evaluation
) -> list[Finding]:
    """What each look shows beside those before it."""
    base = looks[0]
    prompts = len({one.prompt for one in base.images})
    spreads = {name: spread for name, (_, spread) in stats_of(base).items()}
    best = dict.fromkeys(watched, base)
    found = []
    for count, look in enumerate(looks):
        falls, rises = {}, set()
        for name, weight in watched.items() if count else ():
            sign = -1.0 if weight < 0 else 1.0
            for other, looks_compared in ((best[name], count), (base, 1)):
                change = _change(look, other, name, tests=looks_compared * len(watched))
                is_large = -sign * change.mean >= LEAST_FALL * spreads[name]
                if is_large and _signed(change, sign).is_below_zero:
                    falls[name] = (change.mean, other.step)
            if _signed(_change(look, base, name, tests=len(watched)), sign).is_above_zero:
                rises.add(name)
            if sign * look.measured[name].loss > sign * best[name].measured[name].loss:
                best[name] = look
        now = shares(look, base)
        alike = {
            name: now[name]
            for name in (DIVERSITY, VARIETY)
            if now.get(name, 1.0) < settings.least_diversity
        }
        gain = _change(look, base, ALL_TOGETHER)
        found.append(
            Finding(
                gain=gain,
                changes={name: _change(look, base, name).mean for name in look.names},
                falls=falls,
                rises=frozenset(rises),
                watched=len(watched),
                alike=alike,
                is_suspicious=settings.guard != "off"
                and gain.is_above_zero
                and bool(alike or (falls and prompts >= FEW_PROMPTS)),
            )
        )
    return found


def _row(findings: Sequence[Finding]) -> int:
    """How many looks in a row, up to the newest, are suspicious."""
    row = 0
    for found in reversed(findings):
        if not found.is_suspicious:
            break
        row += 1
    return row


def _change(look: Look, other: Look, name: str, *, tests: int = 1) -> Band:
    """The mean paired difference of a score. tests: how many such are made, all to be right."""
    confidence = 1 - (1 - CONFIDENCE) / tests
    return difference(look.measured[name], other.measured[name], confidence=confidence)


def _signed(change: Band, sign: float) -> Band:
    return Band(sign * change.mean, change.error)


def _band(look: Look, name: str) -> Band:
    return band(list(look.measured[name].means.values()))


def _losses(look: Look) -> Measurement:
    """The trained rewards together as a loss: the lower, the better."""
    scores = look.measured[ALL_TOGETHER].losses
    return Measurement(look.step, {key: [-one for one in row] for key, row in scores.items()})


def _told(
    look: Look, base: Look | None, trained: Mapping[str, float], watched: Mapping[str, float]
) -> dict[str, dict[str, float | None]]:
    """Each reward of a look, as `Evaluated.rewards` has it. base: None if it is the look itself."""
    told: dict[str, dict[str, float | None]] = {}
    for name in look.names:
        now = _band(look, name)
        change = None if base is None or base is look else _change(look, base, name)
        told[name] = {
            "mean": now.mean,
            "error": now.error,
            "since_base": change.mean if change else None,
            "since_base_error": change.error if change else None,
            "trained": float(name in trained),
            "weight": {**watched, **trained}.get(name, 1.0),
        }
    return told


def _unmeasured(
    newest: Look,
    looks: Sequence[Look],
    *,
    trained: Mapping[str, float],
    watched: Mapping[str, float],
    settings: Evaluation,
) -> Judged:
    """That of a look with scores that are no numbers. looks: those whose scores all are."""
    before = judge(looks, trained=trained, watched=watched, settings=settings) if looks else None
    means = {name: fmean(one.rewards[name] for one in newest.images) for name in newest.names}
    broken = sorted(name for name, mean in means.items() if not math.isfinite(mean))
    return Judged(
        reward=Band(fmean(one.total for one in newest.images), None),
        best_step=before.best_step if before else newest.step,
        is_best=before is None,
        verdict="flat" if before else "first",
        words=f"Not every score is a number ({', '.join(broken) or 'all together'}), so nothing can"
        " be said of this look.",
        rewards={
            name: {
                "mean": mean,
                "error": None,
                "since_base": None,
                "since_base_error": None,
                "trained": float(name in trained),
                "weight": {**watched, **trained}.get(name, 1.0),
            }
            for name, mean in means.items()
        },
        drift=shares(newest, looks[0]) if looks else {},
        is_suspicious=False,
        stops=False,
    )
