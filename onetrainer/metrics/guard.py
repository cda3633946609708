"""The verdict on evaluations of prompts: whether the trained rewards rise, and at what harm.

Every evaluation generates images of the same prompts from the same noise, so evaluations are
compared image by image. The images of one prompt change together, while the result should hold for
prompts that were not trained. So each prompt's images are averaged first, and confidence bands come
from the spread over prompts. One or two prompts say nothing about others; their bands come from the
spread over images.

The verdict is *hacking* if the trained rewards together are significantly above the base's while
something untrained shows harm: a monitored reward is significantly below the base's or its own best
by a relevant part of its spread; or images have become similar, those of one prompt or those of
different prompts. *Significantly* means beyond the 95 % band of the difference, corrected for the
number of monitored rewards and, for the best, for the number of evaluations it is chosen from; and
the harm has to appear in `patience` evaluations in a row. With a patience of 2, a run of 20
evaluations without a true change is called hacking by chance in about 6 of 100 cases. With one or
two prompts, falls are reported but do not count as harm: they may be specific to these prompts.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from statistics import fmean, stdev

from onetrainer.config.rewards.evaluation import Evaluation
from onetrainer.config.rewards.reward import Reward
from onetrainer.metrics.bands import Band, Measurement, difference, trends
from onetrainer.metrics.messages import GuardFinding, guard_message
from onetrainer.run.events import Evaluated, RewardVerdict

TOTAL = ""
"""The name of the weighted sum of the trained rewards."""
FEW_PROMPTS = 3
"""With fewer prompts, bands come from images."""
MIN_FALL = 0.2
"""The smallest harmful fall, as a fraction of the reward's spread over the base's images."""
DISTANCE = "distance"
DIVERSITY, VARIETY = "diversity", "variety"


@dataclass(frozen=True)
class ScoredImage:
    """An image of a validation prompt. path: Relative to the run folder. seed: Of its noise.

    rewards: By name, each in its own units, trained or only monitored. total: The weighted sum of
    the trained rewards.
    """

    prompt: str
    seed: int
    path: str
    rewards: Mapping[str, float]
    total: float

    def reported(self) -> dict[str, object]:
        """Return it as in `Evaluated.images`."""
        rewards = {**self.rewards, TOTAL: self.total}
        return {"path": self.path, "prompt": self.prompt, "seed": self.seed, "rewards": rewards}


@dataclass(frozen=True)
class EvaluationResult:
    """The scored images of the validation prompts after a step, always in the same order.

    drift: "diversity" of the images of one prompt, "variety" of those of different prompts,
    "contrast" and "saturation" as measured, and "distance" to the base's noise predictions; what
    was not measured is missing.
    """

    step: int
    images: tuple[ScoredImage, ...]
    drift: Mapping[str, float] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its rewards."""
        return tuple(self.images[0].rewards)

    @cached_property
    def measured(self) -> dict[str, Measurement]:
        """The scores by reward name and TOTAL: by prompt, or by image if there are few prompts."""
        measurements: dict[str, Measurement] = {}
        is_few = len({image.prompt for image in self.images}) < FEW_PROMPTS
        for name in (TOTAL, *self.names):
            scores: dict[str, list[float]] = {}
            for number, image in enumerate(self.images):
                key = str(number) if is_few else image.prompt
                scores.setdefault(key, []).append(image.rewards[name] if name else image.total)
            measurements[name] = Measurement(self.step, scores)
        return measurements

    @cached_property
    def broken(self) -> list[str]:
        """The names of scores that are not all finite."""
        return sorted(
            name for name, scores in self.measured.items() if not math.isfinite(scores.mean)
        )


def judge(
    history: Sequence[EvaluationResult],
    *,
    trained: Mapping[str, float],
    monitored: Mapping[str, float],
    settings: Evaluation,
) -> Evaluated:
    """Return the verdict on the newest evaluation of a history.

    trained, monitored: The weights of these rewards by name; with a negative weight,
    a rise counts as a fall. The first evaluation is the reference: the base model, if it was
    evaluated before training. *improving*: the trained rewards together are significantly the
    highest so far. *hacking*: see above; never if the guard is off. The best step is that of the
    highest total among unsuspicious evaluations. Evaluations with scores that are not finite are
    ignored.
    """
    newest = history[-1]
    evaluations = [evaluation for evaluation in history if not evaluation.broken]
    base = evaluations[0] if evaluations else newest
    drift = relative_drift(newest, base) if evaluations else {}
    findings = _findings(evaluations, monitored=monitored, settings=settings)
    clean = [
        evaluation
        for evaluation, finding in zip(evaluations, findings, strict=True)
        if not finding.is_suspicious
    ]
    # The first of equals.
    best = max(clean, key=lambda evaluation: evaluation.measured[TOTAL].mean, default=newest)
    verdict = _verdict(newest, evaluations, findings, settings.patience)
    stops = verdict == "hacking" and settings.guard == "stop"
    if newest.broken:
        names = ", ".join(name for name in newest.broken if name) or "the total"
        message = (
            f"Some scores are not numbers ({names}), so there is no verdict on this evaluation."
        )
    else:
        message = guard_message(
            findings[-1],
            verdict=verdict,
            trained=trained,
            drift=drift,
            base_step=base.step,
            best_step=best.step,
            stops=stops,
        )
    total = _band(newest, TOTAL)
    return Evaluated(
        step=newest.step,
        reward=total.mean,
        error=total.error or 0.0,
        best_step=best.step,
        is_best=best is newest,
        verdict=verdict,
        message=message,
        rewards=_reward_values(newest, base, trained, monitored),
        drift=drift,
        images=[image.reported() for image in newest.images],
        stops=stops,
    )


def names_of(rewards: Sequence[Reward]) -> tuple[str, ...]:
    """Return a name for each reward of a config: "clip", then "clip 2" for another of its type."""
    counts = Counter[str]()
    names = []
    for entry in rewards:
        counts[entry.reward] += 1
        number = counts[entry.reward]
        names.append(entry.reward if number == 1 else f"{entry.reward} {number}")
    return tuple(names)


def reward_stats(evaluation: EvaluationResult) -> dict[str, tuple[float, float]]:
    """Return mean and standard deviation of each reward over an evaluation's images.

    Rewards are normalized by those of the base. Scores that are not finite are ignored; without
    scores the mean is 0, with a single one the deviation.
    """
    stats = {}
    for name in evaluation.names:
        scores = [image.rewards[name] for image in evaluation.images]
        scores = [score for score in scores if math.isfinite(score)]
        mean = fmean(scores) if scores else 0.0
        stats[name] = (mean, stdev(scores) if len(scores) > 1 else 0.0)
    return stats


def relative_drift(evaluation: EvaluationResult, base: EvaluationResult) -> dict[str, float]:
    """Return an evaluation's drift as fractions of the base's, and the distance unchanged.

    Values that are missing or 0 in the base are left out.
    """
    fractions = {}
    for name, value in evaluation.drift.items():
        if name == DISTANCE:
            fractions[name] = value
        elif base.drift.get(name):
            fractions[name] = value / base.drift[name]
    return fractions


def _verdict(
    newest: EvaluationResult,
    evaluations: Sequence[EvaluationResult],
    findings: Sequence[GuardFinding],
    patience: int,
) -> RewardVerdict:
    """Return the verdict in one word. evaluations: Those with finite scores."""
    if newest.broken:
        return "flat" if evaluations else "first"
    if len(evaluations) == 1:
        return "first"
    if len(list(takewhile(lambda finding: finding.is_suspicious, reversed(findings)))) >= patience:
        return "hacking"
    return (
        "improving" if trends([_as_loss(each) for each in evaluations])[-1] == "lower" else "flat"
    )


def _findings(
    evaluations: Sequence[EvaluationResult], *, monitored: Mapping[str, float], settings: Evaluation
) -> list[GuardFinding]:
    """Compare each evaluation with those before it."""
    if not evaluations:
        return []
    base = evaluations[0]
    has_many_prompts = len({image.prompt for image in base.images}) >= FEW_PROMPTS
    spreads = {name: spread for name, (_, spread) in reward_stats(base).items()}
    best = dict.fromkeys(monitored, base)
    findings = []
    for count, evaluation in enumerate(evaluations):
        falls, rises = {}, set()
        for name, weight in monitored.items() if count else ():
            sign = -1.0 if weight < 0 else 1.0
            for other, tests in ((best[name], count), (base, 1)):
                change = _change(evaluation, other, name, tests=tests * len(monitored))
                gain = Band(sign * change.mean, change.error)
                if gain.is_below_zero and -gain.mean >= MIN_FALL * spreads[name]:
                    falls[name] = (change.mean, other.step)
            if gain.is_above_zero:  # since the base
                rises.add(name)
            if sign * evaluation.measured[name].mean > sign * best[name].measured[name].mean:
                best[name] = evaluation
        drift, gain = relative_drift(evaluation, base), _change(evaluation, base, TOTAL)
        alike = {
            name: drift[name]
            for name in (DIVERSITY, VARIETY)
            if drift.get(name, 1.0) < settings.min_diversity
        }
        is_harmed = bool(alike or (falls and has_many_prompts))
        findings.append(
            GuardFinding(
                gain=gain,
                changes={name: _change(evaluation, base, name).mean for name in evaluation.names},
                falls=falls,
                rises=frozenset(rises),
                monitored=len(monitored),
                alike=alike,
                is_suspicious=settings.guard != "off" and gain.is_above_zero and is_harmed,
            )
        )
    return findings


def _change(
    evaluation: EvaluationResult, other: EvaluationResult, name: str, *, tests: int = 1
) -> Band:
    return difference(evaluation.measured[name], other.measured[name], tests=tests)


def _as_loss(evaluation: EvaluationResult) -> Measurement:
    """Return the total reward as a loss: the lower, the better."""
    scores = evaluation.measured[TOTAL].values
    return Measurement(evaluation.step, {key: [-score for score in scores[key]] for key in scores})


def _band(evaluation: EvaluationResult, name: str) -> Band:
    scores = evaluation.measured[name]
    return Band(scores.mean, None) if evaluation.broken else scores.band


def _reward_values(
    evaluation: EvaluationResult,
    base: EvaluationResult,
    trained: Mapping[str, float],
    monitored: Mapping[str, float],
) -> dict[str, dict[str, float | None]]:
    """Return the rewards of an evaluation as in `Evaluated.rewards`."""
    values: dict[str, dict[str, float | None]] = {}
    for name in evaluation.names:
        now = _band(evaluation, name)
        is_compared = base is not evaluation and not evaluation.broken
        change = _change(evaluation, base, name) if is_compared else None
        values[name] = {
            "mean": now.mean,
            "error": now.error,
            "since_base": change.mean if change else None,
            "since_base_error": change.error if change else None,
            "trained": float(name in trained),
            "weight": {**monitored, **trained}.get(name, 1.0),
        }
    return values
