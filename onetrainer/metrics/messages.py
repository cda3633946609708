"""The verdicts on validation losses and on evaluations as sentences, and errors of losses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onetrainer.config.run.hardware import Precision
from onetrainer.errors import StateLost
from onetrainer.metrics.bands import Band, Measurement, best_of, difference, without_gain
from onetrainer.run.events import Evaluated, RewardVerdict, Verdict

FEW_IMAGES = 4
"""With fewer images, a 95 % band is at least four standard errors wide and says little."""
MAX_DRIFT = 0.4
"""Change of contrast and saturation, as a fraction of the base's, above which it is reported."""
_NO_CHANGE = 5e-5  # as a fraction: less than two digits of a percent can show
_LABELS: Mapping[str, str] = {
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
_SIMILAR = {
    "diversity": "the images of one prompt",
    "variety": "the images of different prompts",
}


@dataclass(frozen=True)
class GuardFinding:
    """The result of one evaluation compared with the earlier ones.

    gain: Change of the trained rewards together since the base. changes: Change of each reward
    since the base. falls: Monitored rewards that got significantly worse, with the change and the
    step since which. rises: Monitored rewards significantly better than the base's. monitored:
    Their number. alike: Diversity and variety as fractions of the base's, where they are too low.
    is_suspicious: Whether the evaluation shows the harm that the guard looks for.
    """

    gain: Band
    changes: Mapping[str, float]
    falls: Mapping[str, tuple[float, int]]
    rises: frozenset[str]
    monitored: int
    alike: Mapping[str, float]
    is_suspicious: bool


def validation_message(history: Sequence[Measurement], verdict: Verdict, *, is_higher: bool) -> str:
    """Return the verdict on the newest measurement as sentences.

    is_higher: Whether it is significantly higher than the best before it, or than the first.
    """
    *earlier, newest = history
    loss, images = f"Validation loss {format_loss(newest.mean)}", len(newest.values)
    if not earlier:
        return f"{loss} on {images} image{'s' if images > 1 else ''}."
    start, best = earlier[0], best_of(earlier)
    first = "the start" if start.step == 0 else f"that of step {start.step:,}"
    known = f"step {best.step:,}, the best ({format_loss(best.mean)})"
    is_above_start = difference(newest, start, tests=len(earlier)).is_above_zero
    if verdict == "improving":
        text = "still improving."
    elif verdict == "overfitting" and is_above_start:
        text = f"worse than {when(start.step)}, so the learning rate may be too high."
    elif verdict == "overfitting":
        text = f"clearly worse than {known}: the model begins to memorize (overfitting)."
    elif is_higher:
        reference = when(start.step) if is_above_start else known
        text = f"worse than {reference}; the next one will show more."
    else:
        text = _unsure_text(newest, best=best, start=start)
    caution = "" if images > 1 else " A single image says little about others."
    return f"{loss}, {compared(newest.mean, start.mean)} {first}: {text}{caution}"


def _unsure_text(newest: Measurement, *, best: Measurement, start: Measurement) -> str:
    """Return the text for a change that may be chance. best: The best before the newest."""
    images = len(newest.values)
    is_few = 1 < images < FEW_IMAGES  # a single one has a sentence of its own
    if newest.mean < best.mean:
        if is_few:
            return f"the best so far, but not significantly with only {images} images."
        since = f"step {best.step:,}" if best.step else "the start"
        return f"the best so far, but no significant change since {since}."
    few = f" with only {images} images" if is_few else ""
    if best is start:
        return f"no significant change so far{few}."
    known = f"step {best.step:,}, the best ({format_loss(best.mean)})"
    return f"no significant change{few} since {known}."


def validation_summary(
    history: Sequence[Measurement],
    *,
    early_end: int | None,
    is_untrained: bool,
    best_files: Sequence[str],
) -> list[str]:
    """Return lines for the end of a run.

    early_end: The step at which the patience was used up; None otherwise. is_untrained: Whether
    this start of the run made no step. best_files: Names of the best step's output files.
    """
    if not history:
        return []
    start, best, newest = history[0], best_of(history), history[-1]
    lines = []
    if early_end is not None and is_untrained:
        lines.append("Nothing was trained: the run had stopped early before.")
    if early_end is not None:
        count = without_gain(history)
        validations = f"{count} validations in a row were" if count > 1 else "a validation was"
        lines.append(
            f"Stopped early after step {early_end:,}: {validations} no better than"
            f' {when(best.step)}. To go on, raise validation.patience ("Early stopping after") in'
            " the run's config.json and resume it."
        )
    loss = format_loss(best.mean)
    if best is not newest:
        lines.append(
            f"The validation loss was best {when(best.step)}, {loss}; the last one"
            f" ({format_loss(newest.mean)}) is {compared(newest.mean, best.mean)} it."
        )
    elif len(history) > 1:
        gain = compared(best.mean, start.mean)
        lines.append(f"The last validation loss, {loss}, is the best: {gain} the first.")
    return lines + [_best_file_text(name, best.step) for name in best_files[:1]]


def guard_message(
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
    gain, harm = _gain_text(finding, trained, base_step), _harm_text(finding, base_step)
    if verdict == "hacking":
        end = (
            f"The best weights are those of step {best_step:,}."
            if best_step > base_step
            else f"None are better than those {when(base_step)}."
        )
        text = (
            f"{gain}, but {harm}: the model seems to have found a way to exploit the reward. {end}"
            + (" The run stops here." if stops else "")
        )
    elif finding.is_suspicious:
        text = f"{gain}, but {harm}; the next evaluations will show more."
    elif harm and finding.gain.is_above_zero:
        text = f"{gain}, but {harm}."
    elif harm:
        text = f"{gain}, and {harm}; the learning rate may be too high."
    else:
        text = f"{gain}{_calm_text(finding, verdict)}"
    for name in ("contrast", "saturation"):
        change = drift.get(name, 1.0) - 1
        if abs(change) > MAX_DRIFT:
            side = "above" if change > 0 else "below"
            text += f" {name.capitalize()} is {percent(change)} {side} that of {_since(base_step)}."
    return text


def guard_summary(
    newest: Evaluated, *, step: int, steps: int, keeps_best: bool, best_files: Sequence[str]
) -> list[str]:
    """Return lines for the end of a run. step: Its last of `steps`."""
    lines, best = [newest.message], newest.best_step
    if newest.stops and step < steps:
        lines.append(
            f"The guard stopped it after step {step:,}. To go on, set objective.evaluation.guard"
            ' ("Guard") to "warn" in the run\'s config.json and resume it.'
        )
    if best_files:
        lines.append(_best_file_text(best_files[0], best))
    elif best == 0 and step > 0:
        lines.append(f"No evaluation was better than the one {when(0)}.")
    elif keeps_best and best < step:
        # The guard's settings were changed since, so that another evaluation is the best now.
        lines.append(f"The best evaluation is step {best:,}, but its weights were not saved.")
    return lines


def _best_file_text(name: str, step: int) -> str:
    return f"{name} holds the weights of step {step:,}."


def _gain_text(finding: GuardFinding, trained: Mapping[str, float], base_step: int) -> str:
    """Describe the change of the trained rewards since the base; a single one in its own units."""
    since = f"since {_since(base_step)}"
    if not finding.gain.is_above_zero and not finding.gain.is_below_zero:
        return f"No significant change of the trained rewards {since}"
    what, change = "the trained rewards together", finding.gain.mean
    if len(trained) == 1:
        ((name, weight),) = trained.items()
        what, own = "the trained reward", finding.changes[name]
        if own * weight * finding.gain.mean > 0:  # a target may reverse the sign
            what, change = _reward_label(name), own
    return f"{what[0].upper()}{what[1:]} {_change_text(change)} {since}"


def _harm_text(finding: GuardFinding, base_step: int) -> str:
    """Describe what got worse, as part of a sentence; "" for nothing."""
    parts = [
        # A rise is harm only for a reward that should be low.
        f"{_reward_label(name)}, which is not trained{' and should be low' if change > 0 else ''},"
        f" {_change_text(change)}" + ("" if step == base_step else f" since step {step:,}")
        for name, (change, step) in finding.falls.items()
    ]
    for name, fraction in finding.alike.items():
        parts.append(
            f"{_SIMILAR[name]} have become similar ({name} is"
            f" {percent(fraction) if fraction else '0 %'} of that of {_since(base_step)})"
        )
    return _joined(parts)


def _calm_text(finding: GuardFinding, verdict: RewardVerdict) -> str:
    """Return what follows the gain if nothing got worse."""
    trend = ": still improving" if verdict == "improving" else ""
    if not finding.monitored:
        return f"{trend}."
    if finding.rises:
        risen = _joined([_reward_label(name) for name in sorted(finding.rises)])
        verb = "are" if len(finding.rises) > 1 else "is"
        return f"{trend}; {risen}, which {verb} not trained, {verb} better too."
    return f"{trend}; the monitored rewards have not changed significantly."


def compared(loss: float, reference: float) -> str:
    """Compare a loss with a reference: "8.2 % below", "about the same as"."""
    change = loss / reference - 1 if reference else 0.0
    if abs(change) < _NO_CHANGE:
        return "about the same as"
    return f"{percent(change)} {'below' if change < 0 else 'above'}"


def when(step: int) -> str:
    """Format a step as a time: "at step 300", "before training"."""
    return f"at step {step:,}" if step else "before training"


def format_loss(loss: float) -> str:
    """Format a loss with three digits: "0.112"."""
    return f"{loss:.3g}"


def percent(fraction: float) -> str:
    """Format the absolute value of a fraction with two digits: "0.31 %", "8.2 %", "45 %"."""
    hundredths = abs(fraction) * 100
    digits = 0 if hundredths >= 10 else 1 if hundredths >= 1 else 2
    return f"{hundredths:.{digits}f} %"


def _reward_label(name: str) -> str:
    """Return a reward's name for a sentence: "the aesthetic score", "the CLIP score 2"."""
    kind, space, number = name.partition(" ")
    return f"{_LABELS.get(kind, kind)}{space}{number}"


def _since(step: int) -> str:
    return f"step {step:,}" if step else "the base"


def _change_text(change: float) -> str:
    return f"{'rose' if change > 0 else 'fell'} by {abs(change):.2g}"


def _joined(parts: list[str]) -> str:
    """Join parts as text: "a", "a and b", "a, b and c"."""
    *most, last = parts or [""]
    return f"{', '.join(most)} and {last}" if most else last


def diverged(what: str, precision: Precision | None = None) -> StateLost:
    """Return the error for training loss. precision: The compute precision; None if unknown."""
    alternatives = _finer(precision)
    return StateLost(
        f"{what}: training has diverged",
        "Your last good checkpoint was not overwritten",
        "Lower the learning rate (optimizer.lr)"
        f"{f', or train in {alternatives}' if alternatives else ''}.",
    )


def not_a_number(name: str, precision: Precision | None = None) -> StateLost:
    """Return the error for the loss of a validation image before training."""
    alternatives = _finer(precision)
    return StateLost(
        f"{name}: the base model's validation loss is not a finite number before training starts",
        "Expected a base model that works in the chosen precision",
        f"If the base model's file is intact, try {alternatives} (hardware.precision)."
        if alternatives
        else "Check the base model's file: it may be damaged, or not the expected model.",
    )


def _finer(precision: Precision | None) -> str:
    """Return the precisions of wider range or finer steps to try instead; "" if there is none."""
    return {"fp32": "", "bf16": "fp32"}.get(precision or "", "bf16 or fp32")
