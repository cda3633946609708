"""The verdict on an evaluation of the validation prompts, as sentences."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from onetrainer.metrics.validation import Band, percent, when
from onetrainer.run.events import RewardVerdict

MAX_DRIFT = 0.4
"""Change of contrast and saturation, as a fraction of the base's, above which it is reported."""
_DRIFTS = ("contrast", "saturation")
_LABELS: Mapping[str, str] = MappingProxyType(
    {
        "aesthetic": "the aesthetic score",
        "clip": "the CLIP score",
        "pickscore": "PickScore",
        "hpsv2": "HPSv2",
        "image_reward": "ImageReward",
        "reference": "the similarity to the reference images",
        "color": "the color",
        "jpeg_size": "the JPEG score",
        "function": "the score of your function",
    }
)


_SIMILAR = {
    "diversity": "the images of one prompt",
    "variety": "the images of different prompts",
}


@dataclass(frozen=True)
class GuardFinding:
    """The result of one evaluation compared with the earlier ones.

    gain: Change of the trained rewards together since the base. changes: Change of each reward
    since the base. falls: Monitored rewards that got significantly worse, with the change and the
    step since which. rises: Monitored rewards significantly better than the base's. watched: Number
    of monitored rewards. alike: Diversity and variety as fractions of the base's, where they are
    too low.
    is_suspicious: Whether the evaluation shows the harm that the guard looks for.
    """

    gain: Band
    changes: Mapping[str, float]
    falls: Mapping[str, tuple[float, int]]
    rises: frozenset[str]
    watched: int
    alike: Mapping[str, float]
    is_suspicious: bool


def verdict_message(
    finding: GuardFinding,
    *,
    verdict: RewardVerdict,
    trained: Mapping[str, float],
    drift: Mapping[str, float],
    base_step: int,
    best_step: int,
    stops: bool,
) -> str:
    """Return the verdict on the newest evaluation as sentences.

    trained: Weights by reward name. drift: As fractions of the base's. base_step: Step of the first
    evaluation.
    """
    if verdict == "first":
        return f"Later evaluations are compared with these scores {when(base_step)}."
    gain = _gain_text(finding, trained, base_step)
    if verdict == "hacking":
        end = (
            f"The best weights are those of step {best_step:,}."
            if best_step > base_step
            else f"None are better than those {when(base_step)}."
        )
        text = (
            f"{gain}, but {_harm_text(finding, base_step)}: the model seems to have found a way to"
            f" exploit the reward. {end}" + (" The run stops here." if stops else "")
        )
    elif finding.is_suspicious:
        text = f"{gain}, but {_harm_text(finding, base_step)}; the next evaluations will show more."
    else:
        text = f"{gain}{_calm_text(finding, verdict, base_step)}"
    return f"{text}{_drift_text(drift, base_step)}"


def reward_label(name: str) -> str:
    """Return a reward's name for a sentence: "the aesthetic score", "the CLIP score 2"."""
    kind, _, number = name.partition(" ")
    label = _LABELS.get(kind, kind)
    return f"{label} {number}" if number else label


def _gain_text(finding: GuardFinding, trained: Mapping[str, float], base_step: int) -> str:
    """Describe the change of the trained rewards since the base; a single one in its own units."""
    names = list(trained)
    since = f"since {_step_label(base_step)}"
    if not finding.gain.is_above_zero and not finding.gain.is_below_zero:
        return f"No significant change of the trained rewards {since}"
    if len(names) == 1:
        change, sign = finding.changes[names[0]], -1 if trained[names[0]] < 0 else 1
        if change * sign * finding.gain.mean > 0:  # a target may reverse the sign
            return _capitalized(f"{reward_label(names[0])} {_change_text(change)} {since}")
    what = "the trained reward" if len(names) == 1 else "the trained rewards together"
    return _capitalized(f"{what} {_change_text(finding.gain.mean)} {since}")


def _harm_text(finding: GuardFinding, base_step: int) -> str:
    """Describe what got worse, as part of a sentence."""
    parts = [
        # A rise is harm only for a reward that should be low.
        f"{reward_label(name)}, which is not trained{' and should be low' if change > 0 else ''},"
        f" {_change_text(change)}" + ("" if step == base_step else f" since step {step:,}")
        for name, (change, step) in finding.falls.items()
    ]
    for name, fraction in finding.alike.items():
        parts.append(
            f"{_SIMILAR[name]} have become similar ({name} is"
            f" {percent(fraction) if fraction else '0 %'} of that of"
            f" {_step_label(base_step)})"
        )
    return _joined(parts)


def _calm_text(finding: GuardFinding, verdict: RewardVerdict, base_step: int) -> str:
    """Return what follows the gain if the guard sees no harm, or is off."""
    if finding.falls or finding.alike:
        if finding.gain.is_above_zero:
            return f", but {_harm_text(finding, base_step)}."
        return f", and {_harm_text(finding, base_step)}; the learning rate may be too high."
    trend = ": still improving" if verdict == "improving" else ""
    if not finding.watched:
        return f"{trend}."
    if finding.rises:
        risen = _joined([reward_label(name) for name in sorted(finding.rises)])
        verb = "are" if len(finding.rises) > 1 else "is"
        return f"{trend}; {risen}, which {verb} not trained, {verb} better too."
    return f"{trend}; the monitored rewards have not changed significantly."


def _drift_text(drift: Mapping[str, float], base_step: int) -> str:
    sentences = [
        f" {_capitalized(name)} is {percent(drift[name] - 1)}"
        f" {'above' if drift[name] > 1 else 'below'} that of {_step_label(base_step)}."
        for name in _DRIFTS
        if name in drift and abs(drift[name] - 1) > MAX_DRIFT
    ]
    return "".join(sentences)


def _step_label(step: int) -> str:
    return "the base" if step == 0 else f"step {step:,}"


def _change_text(change: float) -> str:
    return f"{'rose' if change > 0 else 'fell'} by {abs(change):.2g}"


def _joined(parts: list[str]) -> str:
    """Join parts as text: "a", "a and b", "a, b and c"."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]
