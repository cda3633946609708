"""Trajectories of reward training: which sampling steps of each image carry a gradient."""

from collections.abc import Sequence

import torch

from modules.diffusion.draws import Draws
from modules.sampling.rollout import Trajectory
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
"""Seed purpose: the choice of trajectories."""


def trajectories_of(algorithm: Algorithm, *, steps: int, draws: Draws) -> list[Trajectory]:
    """Choose each image's trajectory of this many steps, seeded by its position in the step.

    Raises:
        ValueError: The algorithm is best of n, which has no gradient through sampling.
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
            raise ValueError("best of n has no gradient through sampling")


def through_last(count: int, steps: int) -> Trajectory:
    """Return a whole trajectory whose last steps carry a gradient.

    Source: Clark et al. 2023, arXiv:2309.17400 (DRaFT-K).
    """
    return Trajectory(tuple(number >= steps - count for number in range(steps)), steps)


def repeated_last_step(steps: int) -> Trajectory:
    """Return a trajectory of the last step alone, for finished latents with new noise.

    Source: Clark et al. 2023, arXiv:2309.17400, section 4.2 (DRaFT-LV).
    """
    last = through_last(1, steps)
    return Trajectory(last.trained, steps, begin=steps - 1)


def _alignprop(algorithm: AlignPropSteps, steps: int, draws: Draws) -> list[Trajectory]:
    """Train the last K steps, K drawn for each image as a fraction of the steps.

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


def _refl(algorithm: ReFL, steps: int, draws: Draws) -> list[Trajectory]:
    """Train one late step, from which the image is predicted at once.

    Source: Xu et al. 2023, arXiv:2304.05977, section 3 (ReFL). The hinge that it puts on the reward
    is the reward's target here, and its pre-training loss the fraction of denoising steps.
    """
    ends = [
        late_step(chance, steps=steps, earliest=algorithm.earliest, latest=algorithm.latest)
        for chance in draws.chances(STEPS)
    ]
    return [Trajectory(_at((end,), steps), end) for end in ends]


def _drtune(algorithm: DRTune, steps: int, draws: Draws) -> list[Trajectory]:
    """Train evenly spaced steps, with no gradient through the UNet's input, and an early end.

    Source: Wu et al. 2024, arXiv:2405.00760.
    """
    trajectories = []
    for generator in draws.generators(STEPS):
        end_chance, offset = torch.rand(2, generator=generator, dtype=torch.float64).tolist()
        calls = early_calls(end_chance, steps=steps, fraction=algorithm.early_stop)
        trained = spread_steps(offset, calls=calls, count=algorithm.trained_steps)
        end = steps if calls == steps else calls - 1
        trajectories.append(Trajectory(_at(trained, steps), end, detaches_inputs=True))
    return trajectories


def _at(numbers: Sequence[int], steps: int) -> tuple[bool, ...]:
    return tuple(number in numbers for number in range(steps))
