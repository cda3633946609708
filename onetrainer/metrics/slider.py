"""How far a concept slider moves predictions toward its ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from onetrainer.run.events import Validated

LEAST = 0.05  # of the way; less is hardly visible, and training noise is about as large


@dataclass(frozen=True)
class Shift:
    """The shift of a prediction at one strength.

    Attributes:
        loss: Mean squared distance to the goal.
        along: Scalar product of the shift and of the way to the goal.
        length: That of the way with itself.
    """

    loss: float
    along: float
    length: float


def moved(shifts: Sequence[Shift]) -> float:
    """Return the fraction of the way that predictions move: 1 all of it, below 0 backward."""
    length = sum(shift.length for shift in shifts)
    return sum(shift.along for shift in shifts) / length if length else 0.0


def judge(
    step: int, ends: Mapping[float, Sequence[Shift]], *, past: Sequence[Validated]
) -> Validated:
    """Return the verdict on a measurement. ends: By strength; past: Earlier verdicts in order."""
    losses = {f"at {strength:+g}": fmean(e.loss for e in each) for strength, each in ends.items()}
    loss, best = fmean(losses.values()), min(past, key=lambda one: one.loss, default=None)
    is_best = best is None or loss < best.loss
    return Validated(
        step=step,
        loss=loss,
        error=0.0,
        images=len(next(iter(ends.values()))),
        best_step=step if best is None or is_best else best.step,
        is_best=is_best,
        verdict="first" if best is None else "improving" if is_best else "flat",
        message=f"The slider moves predictions {_ends(ends)}.",
        by_concept=losses,
        concepts={
            name: {"loss": losses[name], "moved": moved(each)}
            for name, each in zip(losses, ends.values(), strict=True)
        },
    )


def warning_of(ends: Mapping[float, Sequence[Shift]]) -> str | None:
    """Return a warning if predictions do not move toward every end; None if they do."""
    if all(moved(each) >= LEAST for each in ends.values()):
        return None
    return (
        f"the slider does not move predictions toward every end, but {_ends(ends)}; train longer,"
        " raise the learning rate, or choose prompts that differ more"
    )


def _ends(ends: Mapping[float, Sequence[Shift]]) -> str:
    parts = [
        f"{round(100 * moved(each))} % of the way at {strength:+g}"
        for strength, each in ends.items()
    ]
    return " and ".join(parts)
