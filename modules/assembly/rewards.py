"""Reward training from the config: rollout, rewards, objective, evaluation."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import nn

from modules.assembly.inputs import Inputs
from modules.assembly.method import Attached
from modules.assembly.placement import offload_device_of
from modules.assembly.prompts import MixedBatches, denoising_fraction
from modules.assembly.run_context import Run
from modules.data.loader import StepBatches
from modules.data.prompts import PromptBatches
from modules.evaluation.prompts import Evaluator
from modules.evaluation.scores import PromptEvaluation
from modules.memory.eval_mode import inference_mode
from modules.memory.precision import storage_dtype
from modules.objectives.alignprop import AlignProp
from modules.objectives.best_of_n import BestOfN
from modules.objectives.candidate_files import RoundFiles
from modules.objectives.candidates import Candidates
from modules.objectives.denoising import Denoising
from modules.objectives.inputs import Objective
from modules.optim.exported_weights import ExportedWeights
from modules.rewards.load import make_rewards
from modules.rewards.measures import Reward
from modules.rewards.mixer import Mixer, NamedReward
from modules.sampling.rollout import Rollout
from modules.trainer import StepAbandoned
from modules.training.engine import Engine
from modules.world.world import World, alone
from onetrainer.config.objectives.denoising import Denoising as DenoisingSection
from onetrainer.config.rewards.algorithms import BestOfN as BestOfNSection
from onetrainer.config.rewards.alignprop import AlignProp as Section
from onetrainer.config.train import TrainConfig
from onetrainer.metrics.files import SCORES, MeasurementFiles, grid_of
from onetrainer.metrics.guard import names_of
from onetrainer.run.events import Phase
from onetrainer.schedules.amounts import Plan

REWARD_UNITS = "reward units"
"""The order to normalize rewards by the base model's scores."""


@dataclass(frozen=True)
class LossSource:
    """The batches of each step and the objective that turns them into a loss."""

    batches: StepBatches
    objective: Objective


@dataclass(frozen=True)
class Rounds:
    """How the rounds of best of n are stored, reported and shared out.

    Attributes:
        files: None keeps them in memory.
        reward_steps_before, report, world: See `BestOfN` and `Candidates`.
    """

    files: RoundFiles | None = None
    reward_steps_before: Callable[[int], int] = lambda step: step
    report: Callable[[int, int, int], None] = lambda *_: None
    world: World = field(default_factory=alone)


@dataclass(frozen=True)
class LoadedRewards:
    """The rewards of a config.

    Attributes:
        mixer: Normalized by the base model's scores once these are known.
    """

    section: Section
    mixer: Mixer

    @property
    def networks(self) -> nn.Module:
        """The reward networks as one module, for `Residency`."""
        return self.mixer.extra_modules()

    def weights(self, *, trained: bool) -> dict[str, float]:
        """Return the weights of the trained rewards, or of those that are only evaluated."""
        names = names_of(self.section.rewards)
        pairs = zip(names, self.section.rewards, strict=True)
        return {name: reward.weight for name, reward in pairs if reward.train == trained}


def load_rewards(run: Run) -> LoadedRewards | None:
    """Load the rewards on the temporary device; None if the config trains none.

    Raises:
        UserError: For files that do not fit, and for functions that are not trusted.
    """
    section, hardware = run.config.objective, run.config.hardware
    if not isinstance(section, Section):
        return None
    run.events.write(Phase("loading", detail="rewards"))
    rewards = make_rewards(
        section.rewards,
        device=offload_device_of(hardware.offload_device, run.device),
        dtype=storage_dtype("rewards", precision=hardware.precision),
        offline=run.config.model.offline,
        report=lambda detail: run.events.write(Phase("loading", detail=detail)),
    )
    return LoadedRewards(section, mixer_of(section, rewards))


def mixer_of(section: Section, rewards: Sequence[Reward]) -> Mixer:
    """Return the mixer of the config's rewards."""
    named = zip(names_of(section.rewards), section.rewards, rewards, strict=True)
    return Mixer(
        [
            NamedReward(
                name,
                reward,
                is_trained=settings.train,
                weight=settings.weight,
                target=settings.target,
                normalize=settings.normalize,
            )
            for name, settings, reward in named
        ]
    )


def inference_context_of(
    config: TrainConfig, attached: Attached
) -> Callable[[], AbstractContextManager[None]]:
    """Return a context for sampling without gradients or dropout, merged if configured."""
    section, family = config.objective, attached.family
    assert isinstance(section, Section)
    if section.rollout.merge:
        return attached.method.merged
    modules = (family.unet, *family.text_encoders.values(), attached.method.extra_modules())
    return partial(inference_mode, modules)


def rollout_of(config: TrainConfig, attached: Attached, *, device: torch.device) -> Rollout:
    """Return the config's sampler for training."""
    section = config.objective
    assert isinstance(section, Section)
    rollout = section.rollout
    return Rollout(
        attached.family,
        steps=rollout.steps,
        eta=rollout.eta,
        guidance=rollout.guidance,
        guidance_gradient=rollout.guidance_gradient,
        checkpoint=rollout.checkpoint,
        train_device=device,
        offload_device=offload_device_of(config.hardware.offload_device, device),
    )


def reward_objective(
    config: TrainConfig,
    attached: Attached,
    mixer: Mixer,
    *,
    device: torch.device,
    prompts: PromptBatches,
    rounds: Rounds | None = None,
) -> Objective:
    """Return the training objective of the config. rounds: None stores none of best of n."""
    rounds = rounds or Rounds()
    section, method, family = config.objective, attached.method, attached.family
    assert isinstance(section, Section)
    rollout = rollout_of(config, attached, device=device)
    # Plain denoising, for denoising steps and validation images.
    denoising = Denoising(family, section=DenoisingSection(), device=device)
    merged = inference_context_of(config, attached)
    if isinstance(section.algorithm, BestOfNSection):
        candidates = Candidates(
            family,
            section=section.algorithm,
            mixer=mixer,
            rollout=rollout,
            prompts=prompts,
            merged=merged,
            report=rounds.report,
            world=rounds.world,
        )
        return BestOfN(
            candidates,
            denoising,
            section.algorithm.steps_per_round,
            rounds.files,
            device,
            rounds.reward_steps_before,
        )
    return AlignProp(
        family,
        section=section,
        mixer=mixer,
        rollout=rollout,
        denoising=denoising,
        device=device,
        base_model=method.base_model,
        merged=merged,
    )


def reward_loss_source(
    run: Run, attached: Attached, inputs: Inputs, rewards: LoadedRewards
) -> LossSource:
    """Return the batches and the objective of a run."""
    prompts, images = inputs.prompts, inputs.images
    assert prompts is not None
    batches = MixedBatches(
        prompts.batches,
        None if images is None else images.batches,
        denoising_fraction=denoising_fraction(run.config),
        is_leaving=run.inbox.is_leaving,
    )
    objective = reward_objective(
        run.config,
        attached,
        rewards.mixer,
        device=run.device,
        prompts=prompts.batches,
        rounds=_rounds(run, batches),
    )
    return LossSource(batches, objective)


def _rounds(run: Run, batches: MixedBatches) -> Rounds:
    files = None
    if run.world.is_first:
        files = RoundFiles(run.folder.rewards, completed_steps=run.first_step)
    return Rounds(files, batches.reward_steps_before, partial(_report_candidates, run), run.world)


def prompt_evaluation_of(
    run: Run,
    attached: Attached,
    inputs: Inputs,
    rewards: LoadedRewards,
    *,
    plan: Plan,
    engine: Engine,
    exported: ExportedWeights,
) -> PromptEvaluation:
    """Return the evaluation of the validation prompts, with its past."""
    assert inputs.prompts is not None and inputs.prompts.validation is not None
    section, validation = rewards.section, inputs.prompts.validation
    files = MeasurementFiles(
        run.folder.rewards,
        SCORES,
        grid=grid_of(section, validation.prompts),
        until=run.last.step if run.last else None,
    )
    for text in files.damaged:
        run.warn(text)
    if files.incomparable:
        run.warn(
            "the evaluation prompts or their scoring have changed since the checkpoint; earlier"
            " rewards cannot be compared with later ones and are ignored"
        )
    return PromptEvaluation(
        section.evaluation,
        files,
        steps=run.config.training.total_steps,
        plan=plan,
        trained=rewards.weights(trained=True),
        monitored=rewards.weights(trained=False),
        evaluator=Evaluator(
            family=attached.family,
            validation=validation,
            rollout=rollout_of(run.config, attached, device=run.device),
            merged=inference_context_of(run.config, attached),
            autocast=engine.autocast,
            base_model=attached.method.base_model if section.evaluation.distance else None,
            device=run.device,
            world=run.world,
        ),
        rewards=rewards.mixer,
        exported=exported,
        folder=run.folder.path,
        warn=run.warn,
        on_base=partial(run.world.call, REWARD_UNITS) if run.world.is_first else lambda _: None,
    )


def _report_candidates(run: Run, step: int, done: int, total: int) -> None:
    """Report the progress of a round; raise StepAbandoned if the run is to end."""
    if run.inbox.is_leaving():
        raise StepAbandoned
    if done < total:
        run.events.write(Phase("sampling", done, total, "candidates"))
    else:
        run.events.write(Phase("training", step, run.config.training.total_steps))
