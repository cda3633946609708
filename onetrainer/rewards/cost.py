"""What a run asks of the UNet: forward passes a step, by what they are for, known beforehand.

A pass is one latent through the UNet once; with guidance each step of a drawing has two of them,
with the prompt and without, which are computed as one call. What is drawn by chance counts with
its mean. Rewards ask nothing of the UNet, those that are only watched neither.
"""

import math
from dataclasses import dataclass

from onetrainer.config.objectives.denoising import Denoising
from onetrainer.config.rewards.algorithms import (
    Algorithm,
    AlignPropSteps,
    BestOfN,
    Draft,
    DraftLv,
    DRTune,
    ReFL,
)
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.run.sampling import Sampling
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.rewards.prompts import prompts_of
from onetrainer.rewards.truncation import (
    mean_early_calls,
    mean_last_steps,
    mean_late_step,
    mean_spread_steps,
)

BACKWARD = 2
"""A backward pass counts as so many forward passes: a product's gradient by each of its operands.
Where weights are frozen one of the two is left out, and it takes less."""
DISTANCE_PASSES = 6
"""Of a held-out picture: the model's and the base's, at each of three noise levels."""


@dataclass(frozen=True)
class StepCost:
    """A step's passes of the UNet, on average.

    drawing: without a gradient, to draw. trained: with one, while drawing. ordinary: with one, of
    pictures that are learnt as they are. anchor: without one, to
    compare the model with the one before training.
    anchor_trained: with one, to compare with it. keeps_inputs: whether what is kept of a trained
    pass of drawing is its inputs alone. repeats_blocks: whether blocks are computed again within
    every pass with a gradient.
    scored, scored_plainly: pictures that are decoded and scored with a gradient, and without.
    """

    drawing: float = 0.0
    trained: float = 0.0
    ordinary: float = 0.0
    anchor: float = 0.0
    anchor_trained: float = 0.0
    keeps_inputs: bool = False
    repeats_blocks: bool = False
    scored: float = 0.0
    scored_plainly: float = 0.0

    @property
    def with_gradient(self) -> float:
        """All passes that a backward pass belongs to."""
        return self.trained + self.ordinary + self.anchor_trained

    @property
    def repeated_whole(self) -> float:
        """Passes that are computed again from their inputs."""
        return self.trained + self.anchor_trained if self.keeps_inputs else 0.0

    @property
    def repeated(self) -> float:
        """All that is computed again for the gradient."""
        return self.repeated_whole + (self.with_gradient if self.repeats_blocks else 0.0)

    def by_part(self) -> dict[str, float]:
        """Passes by what they are for, backward ones as so many forward ones; none that is 0."""
        parts = {
            "drawing": self.drawing,
            "trained": self.trained,
            "ordinary": self.ordinary,
            "repeated": self.repeated,
            "backward": BACKWARD * self.with_gradient,
            "anchor": self.anchor + self.anchor_trained,
        }
        return {name: passes for name, passes in parts.items() if passes}


@dataclass(frozen=True)
class RunCost:
    """What a run takes.

    steps: of the optimizer. looks: how often held-out prompts are drawn; look: what each takes.
    samples: what all pictures for people take together.
    """

    steps: int
    step: StepCost
    looks: int = 0
    look: StepCost = StepCost()
    samples: StepCost = StepCost()


def cost_of(config: TrainConfig) -> RunCost:
    """The passes of a config's run; of one that does not ask the UNet, none."""
    samples = _samples(config.sampling, config.training.steps)
    images = config.training.batch_size * config.training.accumulation
    repeats = config.hardware.gradient_checkpointing == "block"
    match config.objective:
        case AlignProp() as section:
            step = _reward_step(section, images, config.training.steps, repeats)
            steps = config.training.steps
            return RunCost(steps, step, _looks(section, steps), _look(config, section), samples)
        case Denoising():
            step = StepCost(ordinary=images, repeats_blocks=repeats)
            return RunCost(config.training.steps, step, samples=samples)
        case _:
            return RunCost(config.training.steps, StepCost())


def _reward_step(section: AlignProp, images: int, steps: int, repeats_blocks: bool) -> StepCost:
    """The mean of a run's steps: ordinary ones, and those toward the reward."""
    rollout, share = section.rollout, section.keep.denoising_share
    halves = halves_of(rollout.guidance)
    ordinary = share * images
    drawn = (1 - share) * images
    if isinstance(section.algorithm, BestOfN):
        rounds = math.ceil(steps / section.algorithm.steps_per_round)
        candidates = (
            rounds
            / steps
            * section.algorithm.prompts_per_round
            * section.algorithm.candidates_per_prompt
        )
        return StepCost(
            drawing=candidates * rollout.steps * halves,
            ordinary=ordinary + drawn,
            repeats_blocks=repeats_blocks,
            scored_plainly=candidates,
        )
    course = _mean_course(section.algorithm, rollout.steps)
    trained_halves = halves if rollout.guidance_gradient else 1
    untrained = course.plain * halves + course.trained * (halves - trained_halves)
    has_anchor = section.keep.anchor > 0
    return StepCost(
        drawing=drawn * untrained,
        trained=drawn * course.trained * trained_halves,
        ordinary=ordinary,
        anchor=drawn * has_anchor,
        anchor_trained=drawn * has_anchor,
        keeps_inputs=rollout.checkpoint,
        repeats_blocks=repeats_blocks,
        scored=drawn * course.images,
    )


@dataclass(frozen=True)
class _MeanCourse:
    """A picture's drawing on average: its steps without and with a gradient, and how many pictures
    come out of it that are scored.
    """

    plain: float
    trained: float
    images: float = 1.0


def _mean_course(algorithm: Algorithm, steps: int) -> _MeanCourse:
    match algorithm:
        case AlignPropSteps(through="all"):
            return _MeanCourse(0, steps)
        case AlignPropSteps(through="random") as own:
            last = mean_last_steps(steps=steps, least=own.min_fraction, most=own.max_fraction)
            return _MeanCourse(steps - last, last)
        case AlignPropSteps(last_steps=last) | Draft(last_steps=last):
            return _MeanCourse(steps - last, last)
        case DraftLv(gradients_per_image=gradients):
            return _MeanCourse(steps - 1, gradients, images=gradients)
        case ReFL() as own:
            before = mean_late_step(steps=steps, earliest=own.earliest, latest=own.latest)
            return _MeanCourse(before, 1)
        case DRTune(early_stop=share, trained_steps=count):
            trained = mean_spread_steps(steps=steps, share=share, count=count)
            return _MeanCourse(mean_early_calls(steps=steps, share=share) - trained, trained)
        case BestOfN():
            raise ValueError("best of n has no gradient through a drawing")


def halves_of(guidance: float) -> int:
    """Passes of a step of a drawing: with the prompt, and without unless there is no guidance."""
    return 1 if guidance == 1 else 2


def _looks(section: AlignProp, steps: int) -> int:
    """Before the first step, after every so many, and after the last."""
    every = section.evaluation.every
    return 1 + steps // every + (steps % every > 0)


def _look(config: TrainConfig, section: AlignProp) -> StepCost:
    """A look at the held-out prompts; where these cannot be told, as many as there may be."""
    watched, rollout = section.evaluation, section.rollout
    try:
        prompts = len(prompts_of(config).validation)
    except UserError:
        prompts = watched.max_prompts
    images = prompts * watched.seeds
    return StepCost(
        drawing=images * rollout.steps * halves_of(rollout.guidance),
        anchor=images * DISTANCE_PASSES * watched.distance,
        scored_plainly=images,
    )


def _samples(section: Sampling, steps: int) -> StepCost:
    """As the run's task that draws them counts."""
    periodic = steps // section.every if section.every else 0
    is_extra = section.at_end and not (section.every and steps % section.every == 0)
    images = len(section.prompts) * (section.at_start + periodic + is_extra)
    passes = images * section.steps * halves_of(section.guidance)
    return StepCost(drawing=passes, scored_plainly=images)
