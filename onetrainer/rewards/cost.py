"""UNet forward passes of a training run, by purpose, computed from its config.

A pass is one latent through the UNet once. With guidance, each sampling step has two, with and
without the prompt, computed as one call. Random quantities count with their mean. Rewards need no
UNet passes.
"""

import math
from dataclasses import dataclass

from onetrainer.config.base.amount import known
from onetrainer.config.objectives.denoising import Denoising
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.objectives.slider import Slider
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
from onetrainer.schedules.amounts import estimated

BACKWARD = 2
"""Forward passes that cost as much as a backward pass: the gradients of a product's two operands.
With frozen weights, one of the two is not computed."""
DISTANCE_PASSES = 6
"""Per validation image: the model's and the base's, at three noise levels."""


@dataclass(frozen=True)
class StepCost:
    """The UNet passes of one step, on average.

    sampling: Without gradient, to generate images. trained: With gradient, while generating.
    ordinary: With gradient, on training images. anchor: Without gradient, by the base model for
    comparison.
    anchor_trained: With gradient, to be compared with it. keeps_inputs: Whether only the inputs of
    a trained sampling pass are saved for backward. repeats_blocks: Whether blocks are recomputed
    within every pass with a gradient. scored, scored_without_gradient: Images that are decoded and
    scored.
    """

    sampling: float = 0.0
    trained: float = 0.0
    ordinary: float = 0.0
    anchor: float = 0.0
    anchor_trained: float = 0.0
    keeps_inputs: bool = False
    repeats_blocks: bool = False
    scored: float = 0.0
    scored_without_gradient: float = 0.0

    @property
    def with_gradient(self) -> float:
        """The passes that have a backward pass."""
        return self.trained + self.ordinary + self.anchor_trained

    @property
    def recomputed_whole(self) -> float:
        """The passes that are recomputed from their inputs."""
        return self.trained + self.anchor_trained if self.keeps_inputs else 0.0

    @property
    def repeated(self) -> float:
        """The passes recomputed for the gradient."""
        return self.recomputed_whole + (self.with_gradient if self.repeats_blocks else 0.0)

    def by_purpose(self) -> dict[str, float]:
        """Return the passes by purpose, in forward passes, without zeros."""
        passes_by_name = {
            "sampling": self.sampling,
            "trained": self.trained,
            "ordinary": self.ordinary,
            "repeated": self.repeated,
            "backward": BACKWARD * self.with_gradient,
            "anchor": self.anchor + self.anchor_trained,
        }
        return {name: passes for name, passes in passes_by_name.items() if passes}


@dataclass(frozen=True)
class RunCost:
    """The UNet passes of a run.

    steps: Optimizer steps. step: Passes of each. evaluations: Number of evaluations of the
    validation prompts. evaluation: Passes of each. samples: Passes of all sample images together.
    """

    steps: int
    step: StepCost
    evaluations: int = 0
    evaluation: StepCost = StepCost()
    samples: StepCost = StepCost()


def cost_of(config: TrainConfig) -> RunCost:
    """Return the passes of a config's run; 0 if the objective does not train the UNet."""
    config = estimated(config)
    samples = _samples(config.sampling, config.training.total_steps)
    images = config.training.batch_size * config.training.accumulation
    repeats = config.hardware.gradient_checkpointing == "block"
    match config.objective:
        case AlignProp() as section:
            step = _reward_step(section, images, config.training.total_steps, repeats)
            steps = config.training.total_steps
            # Before the first step, after every N steps, and after the last.
            every = known(section.evaluation.every)
            evaluations = 1 + steps // every + (steps % every > 0)
            evaluation = _evaluation_cost(config, section)
            return RunCost(steps, step, evaluations, evaluation, samples)
        case Denoising():
            step = StepCost(ordinary=images, repeats_blocks=repeats)
            return RunCost(config.training.total_steps, step, samples=samples)
        case Slider() as slider:
            step = StepCost(
                # 1 to steps - 1 denoising steps, all equally likely.
                sampling=images * slider.steps / 2 * passes_per_step(slider.denoising_guidance),
                ordinary=images,
                anchor=3 * images,  # neutral, positive and negative
                repeats_blocks=repeats,
            )
            return RunCost(config.training.total_steps, step, samples=samples)
        case Reconstruction():
            return RunCost(config.training.total_steps, StepCost())


def _reward_step(section: AlignProp, images: int, steps: int, repeats_blocks: bool) -> StepCost:
    """Return the mean over a run's steps of denoising and of reward training."""
    rollout, fraction = section.rollout, section.keep.denoising_fraction
    passes = passes_per_step(rollout.guidance)
    ordinary = fraction * images
    generated = (1 - fraction) * images
    if isinstance(section.algorithm, BestOfN):
        rounds = math.ceil(steps / section.algorithm.steps_per_round)
        candidates = (
            rounds
            / steps
            * section.algorithm.prompts_per_round
            * section.algorithm.candidates_per_prompt
        )
        return StepCost(
            sampling=candidates * rollout.steps * passes,
            ordinary=ordinary + generated,
            repeats_blocks=repeats_blocks,
            scored_without_gradient=candidates,
        )
    trajectory = _mean_trajectory(section.algorithm, rollout.steps)
    trained_passes = passes if rollout.guidance_gradient else 1
    untrained = trajectory.plain * passes + trajectory.trained * (passes - trained_passes)
    has_anchor = section.keep.anchor > 0
    return StepCost(
        sampling=generated * untrained,
        trained=generated * trajectory.trained * trained_passes,
        ordinary=ordinary,
        anchor=generated * has_anchor,
        anchor_trained=generated * has_anchor,
        keeps_inputs=rollout.checkpoint,
        repeats_blocks=repeats_blocks,
        scored=generated * trajectory.images,
    )


@dataclass(frozen=True)
class _MeanTrajectory:
    """The mean over images of sampling steps without and with gradient, and of images to score."""

    plain: float
    trained: float
    images: float = 1.0


def _mean_trajectory(algorithm: Algorithm, steps: int) -> _MeanTrajectory:
    match algorithm:
        case AlignPropSteps(through="all"):
            return _MeanTrajectory(0, steps)
        case AlignPropSteps(through="random") as section:
            last = mean_last_steps(
                steps=steps, least=section.min_fraction, most=section.max_fraction
            )
            return _MeanTrajectory(steps - last, last)
        case AlignPropSteps(last_steps=last) | Draft(last_steps=last):
            return _MeanTrajectory(steps - last, last)
        case DraftLv(gradients_per_image=gradients):
            return _MeanTrajectory(steps - 1, gradients, images=gradients)
        case ReFL() as section:
            before = mean_late_step(steps=steps, earliest=section.earliest, latest=section.latest)
            return _MeanTrajectory(before, 1)
        case DRTune(early_stop=fraction, trained_steps=count):
            trained = mean_spread_steps(steps=steps, fraction=fraction, count=count)
            return _MeanTrajectory(
                mean_early_calls(steps=steps, fraction=fraction) - trained, trained
            )
        case BestOfN():
            raise ValueError("best of n has no gradient through sampling")


def passes_per_step(guidance: float) -> int:
    """Return the UNet passes of a sampling step: 2 with guidance, with and without the prompt."""
    return 1 if guidance == 1 else 2


def _evaluation_cost(config: TrainConfig, section: AlignProp) -> StepCost:
    """Return the passes of an evaluation; of the maximum number of prompts if they are unknown."""
    evaluation, rollout = section.evaluation, section.rollout
    try:
        prompts = len(prompts_of(config).validation)
    except UserError:
        prompts = evaluation.max_prompts
    images = prompts * evaluation.seeds
    return StepCost(
        sampling=images * rollout.steps * passes_per_step(rollout.guidance),
        anchor=images * DISTANCE_PASSES * evaluation.distance,
        scored_without_gradient=images,
    )


def _samples(section: Sampling, steps: int) -> StepCost:
    """Return the passes of all sample images, counted as the run generates them."""
    every = known(section.every)
    periodic = steps // every if every else 0
    is_extra = section.at_end and not (every and steps % every == 0)
    images = len(section.prompts) * (section.at_start + periodic + is_extra)
    passes = images * section.steps * passes_per_step(section.guidance)
    return StepCost(sampling=passes, scored_without_gradient=images)
