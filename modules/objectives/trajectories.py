"""Which way each picture's drawing takes: the published ways to let a reward's gradient through."""

from collections.abc import Sequence

import torch

from modules.diffusion.draws import Draws
from modules.sampling.rollout import Course
from onetrainer.config.rewards.algorithms import (
    Algorithm,
    AlignPropSteps,
    BestOfN,
    Draft,
    DraftLv,
    DRTune,
    ReFL,
)
from onetrainer.rewards.truncation import early_calls, last_steps, late_step, spread_steps

STEPS = "reward-steps"
"""What the draws of courses are for."""


def courses_of(algorithm: Algorithm, *, steps: int, draws: Draws) -> list[Course]:
    """Each picture's course in a drawing of so many steps, drawn by its place in the step.

    Raises ValueError for best of n, which has no gradient through a drawing.
    """
    match algorithm:
        case AlignPropSteps():
            return _alignprop(algorithm, steps, draws)
        case Draft():
            return [through_last(algorithm.last_steps, steps)] * len(draws.positions)
        case DraftLv():
            return [through_last(1, steps)] * len(draws.positions)
        case ReFL():
            return _refl(algorithm, steps, draws)
        case DRTune():
            return _drtune(algorithm, steps, draws)
        case BestOfN():
            raise ValueError("best of n has no gradient through a drawing")


def through_last(count: int, steps: int) -> Course:
    """A whole drawing whose last steps carry a gradient.

    Source: Clark et al. 2023, arXiv:2309.17400 (DRaFT-K).
    """
    return Course(tuple(number >= steps - count for number in range(steps)), steps)


def last_step_again(steps: int) -> Course:
    """The last step alone, of finished latents under new noise.

    Source: Clark et al. 2023, arXiv:2309.17400, section 4.2 (DRaFT-LV).
    """
    last = through_last(1, steps)
    return Course(last.trained, steps, begin=steps - 1)


def _alignprop(algorithm: AlignPropSteps, steps: int, draws: Draws) -> list[Course]:
    """The last K steps, K drawn for each picture as a share of the steps.

    Source: Prabhudesai et al. 2023, arXiv:2310.03739, which draws one K for a batch.
    """
    match algorithm.through:
        case "random":
            least, most = algorithm.min_fraction, algorithm.max_fraction
            counts = [
                last_steps(chance, steps=steps, least=least, most=most)
                for chance in draws.chances(STEPS)
            ]
        case "fixed":
            counts = [algorithm.last_steps] * len(draws.positions)
        case "all":
            counts = [steps] * len(draws.positions)
    return [through_last(count, steps) for count in counts]


def _refl(algorithm: ReFL, steps: int, draws: Draws) -> list[Course]:
    """One late step, from which the picture is foretold at once.

    Source: Xu et al. 2023, arXiv:2304.05977, section 3 (ReFL). The hinge that it puts on the reward
    is the reward's target here, and its pre-training loss the share of ordinary steps.
    """
    ends = [
        late_step(chance, steps=steps, earliest=algorithm.earliest, latest=algorithm.latest)
        for chance in draws.chances(STEPS)
    ]
    return [Course(_at((end,), steps), end) for end in ends]


def _drtune(algorithm: DRTune, steps: int, draws: Draws) -> list[Course]:
    """Steps evenly apart, none of which lets a gradient through the UNet's input, and an early end.

    Source: Wu et al. 2024, arXiv:2405.00760.
    """
    courses = []
    for end_chance, offset in _pairs(draws):
        calls = early_calls(end_chance, steps=steps, share=algorithm.early_stop)
        trained = spread_steps(offset, calls=calls, count=algorithm.trained_steps)
        end = steps if calls == steps else calls - 1
        courses.append(Course(_at(trained, steps), end, detaches_inputs=True))
    return courses


def _pairs(draws: Draws) -> list[tuple[float, float]]:
    """Two numbers in [0, 1) for each picture."""
    both = (torch.rand(2, generator=g, dtype=torch.float64) for g in draws.generators(STEPS))
    return [(float(one), float(other)) for one, other in both]


def _at(numbers: Sequence[int], steps: int) -> tuple[bool, ...]:
    return tuple(number in numbers for number in range(steps))
