"""Statistics and verdicts of evaluations of the validation prompts.

Every evaluation generates images of the same prompts from the same noise, so evaluations are
compared image by image. The images of one prompt change together, while the result should hold for
prompts that were not trained. So each prompt's images are averaged first, and confidence bands come
from the spread over prompts. One or two prompts say nothing about others; their bands come from the
spread over images.

The verdict is *hacking* if the trained rewards together are significantly above the base's while
something untrained shows harm: a monitored reward is significantly below the base's or its own best
by a relevant part of its spread; or images have become similar, those of one prompt or those of
different prompts. *Significantly* means beyond the 95 % band of the difference, corrected for the
number of monitored rewards and, for the best, for the number of evaluations it is chosen from
(Bonferroni's inequality); and the harm has to appear in `patience` evaluations in a row. With a
patience of 2, a run of 20 evaluations without a true change is called hacking by chance in about 6
of 100 cases. With one or two prompts, falls are reported but do not count as harm: they may be
specific to these prompts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean, stdev

from onetrainer.config.rewards.evaluation import Evaluation
from onetrainer.metrics import validation
from onetrainer.metrics.evaluation_messages import GuardFinding, verdict_message
from onetrainer.metrics.validation import CONFIDENCE, Band, Measurement, band, difference
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
    def is_finite(self) -> bool:
        """Return whether all scores are finite."""
        return all(
            math.isfinite(score)
            for image in self.images
            for score in (image.total, *image.rewards.values())
        )

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


@dataclass(frozen=True)
class EvaluationSummary:
    """The verdict on the newest evaluation of a run; fields as in `Evaluated`.

    reward: Its error is None if there is no band. is_suspicious: Whether this evaluation shows
    harm, which is called hacking if enough evaluations in a row do.
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

    def event(self, evaluation: EvaluationResult) -> Evaluated:
        """Return the event that reports it. evaluation: The newest one."""
        return Evaluated(
            step=evaluation.step,
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
                    "path": image.path,
                    "prompt": image.prompt,
                    "seed": image.seed,
                    "rewards": {**image.rewards, TOTAL: image.total},
                }
                for image in evaluation.images
            ],
            stops=self.stops,
        )


def judge(
    history: Sequence[EvaluationResult],
    *,
    trained: Mapping[str, float],
    watched: Mapping[str, float],
    settings: Evaluation,
) -> EvaluationSummary:
    """Return the verdict on the newest evaluation of a history.

    trained, watched: The weights of trained and monitored rewards by name; with a negative weight,
    a rise counts as a fall. The first evaluation is the reference: the base model, if it was
    evaluated before training. *improving*: the trained rewards together are significantly the
    highest so far (`validation.judge`). *hacking*: see above; never if the guard is off. The best
    step is that of the highest total among unsuspicious evaluations. Evaluations with scores that
    are not finite are ignored.
    """
    newest = history[-1]
    evaluations = [evaluation for evaluation in history if evaluation.is_finite]
    if not newest.is_finite:
        return _unmeasured(newest, evaluations, trained=trained, watched=watched, settings=settings)
    findings = _findings(evaluations, watched=watched, settings=settings)
    is_hacking = _suspicious_count(findings) >= settings.patience
    clean = [
        evaluation
        for evaluation, finding in zip(evaluations, findings, strict=True)
        if not finding.is_suspicious
    ]
    best = max(clean, key=lambda evaluation: evaluation.measured[TOTAL].loss)  # first of equals
    verdict: RewardVerdict
    match validation.judge([_as_loss(evaluation) for evaluation in evaluations]).verdict:
        case _ if is_hacking:
            verdict = "hacking"
        case "first" | "improving" as same:
            verdict = same
        case _:
            verdict = "flat"
    base = evaluations[0]
    drift = relative_drift(newest, base)
    stops = is_hacking and settings.guard == "stop"
    return EvaluationSummary(
        reward=_band(newest, TOTAL),
        best_step=best.step,
        is_best=best is newest,
        verdict=verdict,
        words=verdict_message(
            findings[-1],
            verdict=verdict,
            trained=trained,
            drift=drift,
            base_step=base.step,
            best_step=best.step,
            stops=stops,
        ),
        rewards=_reward_values(newest, base, trained, watched),
        drift=drift,
        is_suspicious=findings[-1].is_suspicious,
        stops=stops,
    )


def _as_loss(evaluation: EvaluationResult) -> Measurement:
    """Return the total reward as a loss: the lower, the better."""
    scores = evaluation.measured[TOTAL].losses
    return Measurement(evaluation.step, {key: [-score for score in scores[key]] for key in scores})


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


def _findings(
    evaluations: Sequence[EvaluationResult], *, watched: Mapping[str, float], settings: Evaluation
) -> list[GuardFinding]:
    """Compare each evaluation with those before it."""
    base = evaluations[0]
    prompts = len({image.prompt for image in base.images})
    spreads = {name: spread for name, (_, spread) in reward_stats(base).items()}
    best = dict.fromkeys(watched, base)
    findings = []
    for count, evaluation in enumerate(evaluations):
        falls, rises = {}, set()
        for name, weight in watched.items() if count else ():
            sign = -1.0 if weight < 0 else 1.0
            for other, compared_count in ((best[name], count), (base, 1)):
                change = _change(evaluation, other, name, tests=compared_count * len(watched))
                is_large = -sign * change.mean >= MIN_FALL * spreads[name]
                if is_large and _signed(change, sign).is_below_zero:
                    falls[name] = (change.mean, other.step)
            if _signed(_change(evaluation, base, name, tests=len(watched)), sign).is_above_zero:
                rises.add(name)
            if sign * evaluation.measured[name].loss > sign * best[name].measured[name].loss:
                best[name] = evaluation
        drift = relative_drift(evaluation, base)
        alike = {
            name: drift[name]
            for name in (DIVERSITY, VARIETY)
            if drift.get(name, 1.0) < settings.least_diversity
        }
        gain = _change(evaluation, base, TOTAL)
        findings.append(
            GuardFinding(
                gain=gain,
                changes={name: _change(evaluation, base, name).mean for name in evaluation.names},
                falls=falls,
                rises=frozenset(rises),
                watched=len(watched),
                alike=alike,
                is_suspicious=settings.guard != "off"
                and gain.is_above_zero
                and bool(alike or (falls and prompts >= FEW_PROMPTS)),
            )
        )
    return findings


def _suspicious_count(findings: Sequence[GuardFinding]) -> int:
    """Return how many evaluations in a row, up to the newest, are suspicious."""
    count = 0
    for finding in reversed(findings):
        if not finding.is_suspicious:
            break
        count += 1
    return count


def _change(
    evaluation: EvaluationResult, other: EvaluationResult, name: str, *, tests: int = 1
) -> Band:
    """Return the mean paired difference of a score. tests: Number of such comparisons."""
    confidence = 1 - (1 - CONFIDENCE) / tests
    return difference(evaluation.measured[name], other.measured[name], confidence=confidence)


def _signed(change: Band, sign: float) -> Band:
    return Band(sign * change.mean, change.error)


def _band(evaluation: EvaluationResult, name: str) -> Band:
    return band(list(evaluation.measured[name].means.values()))


def _reward_values(
    evaluation: EvaluationResult,
    base: EvaluationResult | None,
    trained: Mapping[str, float],
    watched: Mapping[str, float],
) -> dict[str, dict[str, float | None]]:
    """Return the rewards of an evaluation as in `Evaluated.rewards`."""
    values: dict[str, dict[str, float | None]] = {}
    for name in evaluation.names:
        now = _band(evaluation, name)
        change = None if base is None or base is evaluation else _change(evaluation, base, name)
        values[name] = {
            "mean": now.mean,
            "error": now.error,
            "since_base": change.mean if change else None,
            "since_base_error": change.error if change else None,
            "trained": float(name in trained),
            "weight": {**watched, **trained}.get(name, 1.0),
        }
    return values


def _unmeasured(
    newest: EvaluationResult,
    evaluations: Sequence[EvaluationResult],
    *,
    trained: Mapping[str, float],
    watched: Mapping[str, float],
    settings: Evaluation,
) -> EvaluationSummary:
    """Return the summary of an evaluation with scores that are not finite.

    evaluations: The ones with finite scores.
    """
    before = (
        judge(evaluations, trained=trained, watched=watched, settings=settings)
        if evaluations
        else None
    )
    means = {name: fmean(image.rewards[name] for image in newest.images) for name in newest.names}
    broken = sorted(name for name, mean in means.items() if not math.isfinite(mean))
    return EvaluationSummary(
        reward=Band(fmean(image.total for image in newest.images), None),
        best_step=before.best_step if before else newest.step,
        is_best=before is None,
        verdict="flat" if before else "first",
        words=f"Some scores are not numbers ({', '.join(broken) or 'the total'}), so there is no"
        " verdict on this evaluation.",
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
        drift=relative_drift(newest, evaluations[0]) if evaluations else {},
        is_suspicious=False,
        stops=False,
    )
