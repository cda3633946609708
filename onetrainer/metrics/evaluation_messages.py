"""What a look at held-out prompts amounts to, in sentences."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from onetrainer.metrics.validation import Band, percent, when
from onetrainer.run.events import RewardVerdict

MOST_DRIFT = 0.4
"""Contrast and saturation this much above or below the base's, as a share, are told of."""
_DRIFTS = ("contrast", "saturation")
_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "aesthetic": "the aesthetic score",
        "clip": "the CLIP score",
        "pickscore": "PickScore",
        "hpsv2": "HPSv2",
        "image_reward": "ImageReward",
        "reference": "the likeness to the reference pictures",
        "color": "the color",
        "jpeg_size": "the JPEG score",
        "function": "the score of your function",
    }
)


_ALIKE = {
    "diversity": "the pictures of a prompt",
    "variety": "the pictures of different prompts",
}


@dataclass(frozen=True)
class Finding:
    """What a look shows beside those before it.

    gain: of the trained rewards together since the base. changes: of each reward since the base.
    falls: the watched rewards that surely got worse: by how much, and since which step. rises:
    those that surely got better than the base. watched: how many there are. alike: diversity and
    variety as shares of the base's, where that is too little. is_suspicious: whether that is harm
    that the guard looks for.
    """

    gain: Band
    changes: Mapping[str, float]
    falls: Mapping[str, tuple[float, int]]
    rises: frozenset[str]
    watched: int
    alike: Mapping[str, float]
    is_suspicious: bool


def words_of(
    found: Finding,
    *,
    verdict: RewardVerdict,
    trained: Mapping[str, float],
    drift: Mapping[str, float],
    base_step: int,
    best_step: int,
    stops: bool,
) -> str:
    """The verdict of the newest look as sentences.

    trained: weights by name. drift: as shares of the base's. base_step: of the first look.
    """
    if verdict == "first":
        return f"What the pictures get {when(base_step)} is what later ones are compared with."
    gained = _gain_words(found, trained, base_step)
    if verdict == "hacking":
        end = (
            f"The best weights are those of step {best_step:,}."
            if best_step > base_step
            else f"None are better than those {when(base_step)}."
        )
        judged = (
            f"{gained}, but {_harm_words(found, base_step)}: the model seems to have found a way to"
            f" please the reward alone. {end}" + (" The run stops here." if stops else "")
        )
    elif found.is_suspicious:
        judged = f"{gained}, but {_harm_words(found, base_step)}; the next looks will tell."
    else:
        judged = f"{gained}{_calm_words(found, verdict, base_step)}"
    return f"{judged}{_drift_words(drift, base_step)}"


def name_words(name: str) -> str:
    """A reward in a sentence, by its name: "the aesthetic score", "the CLIP score 2"."""
    kind, _, number = name.partition(" ")
    words = _WORDS.get(kind, kind)
    return f"{words} {number}" if number else words


def _gain_words(found: Finding, trained: Mapping[str, float], base_step: int) -> str:
    """How the trained rewards went since the base: of a single one in its own units."""
    names = list(trained)
    since = f"since {_step_words(base_step)}"
    if not found.gain.is_above_zero and not found.gain.is_below_zero:
        return f"No sure change of what is trained {since}"
    if len(names) == 1:
        change, sign = found.changes[names[0]], -1 if trained[names[0]] < 0 else 1
        if change * sign * found.gain.mean > 0:  # not if its target turns it round
            return _capital(f"{name_words(names[0])} {_moved(change)} {since}")
    what = "the trained reward" if len(names) == 1 else "the trained rewards together"
    return _capital(f"{what} {_moved(found.gain.mean)} {since}")


def _harm_words(found: Finding, base_step: int) -> str:
    """What is worse, as a part of a sentence."""
    parts = [
        f"{name_words(name)}, which is not trained{_less(change)}, {_moved(change)}"
        + ("" if step == base_step else f" since step {step:,}")
        for name, (change, step) in found.falls.items()
    ]
    for name, share in found.alike.items():
        parts.append(
            f"{_ALIKE[name]} have become alike ({name} is {_share(share)} of that of"
            f" {_step_words(base_step)})"
        )
    return _listed(parts)


def _less(change: float) -> str:
    return " and should be low" if change > 0 else ""  # only then a rise is harm


def _calm_words(found: Finding, verdict: RewardVerdict, base_step: int) -> str:
    """What follows the gain where the guard sees no harm, or is off."""
    if found.falls or found.alike:
        if found.gain.is_above_zero:
            return f", but {_harm_words(found, base_step)}."
        return f", and {_harm_words(found, base_step)}; the learning rate may be too high."
    going = ": still improving" if verdict == "improving" else ""
    if not found.watched:
        return f"{going}."
    if found.rises:
        rose = _listed([name_words(name) for name in sorted(found.rises)])
        verb = "are" if len(found.rises) > 1 else "is"
        return f"{going}; {rose}, which {verb} not trained, {verb} better too."
    return f"{going}; what is only watched has not surely changed."


def _drift_words(drift: Mapping[str, float], base_step: int) -> str:
    told = [
        f" {_capital(name)} is {percent(drift[name] - 1)} {'above' if drift[name] > 1 else 'below'}"
        f" that of {_step_words(base_step)}."
        for name in _DRIFTS
        if name in drift and abs(drift[name] - 1) > MOST_DRIFT
    ]
    return "".join(told)


def _step_words(step: int) -> str:
    return "the base" if step == 0 else f"step {step:,}"


def _moved(change: float) -> str:
    return f"{'rose' if change > 0 else 'fell'} by {abs(change):.2g}"


def _share(share: float) -> str:
    return percent(share) if share else "0 %"


def _listed(parts: list[str]) -> str:
    """Some parts as one: "a", "a and b", "a, b and c"."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
