"""From the config of reward training to what draws, what scores, what learns, and what looks."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Generic

import torch
from torch import nn

from modules.assembly.inputs import Inputs
from modules.assembly.method import Attached
from modules.assembly.placement import offload_device_of
from modules.assembly.prompts import MixedBatches, ordinary_share
from modules.assembly.run_context import Run
from modules.data.prompts import PromptBatches
from modules.evaluation.prompts import Evaluator
from modules.interfaces import Batch, Objective, PromptBatch, Reward
from modules.memory.precision import precision_of
from modules.methods.layers.inference_mode import quickened
from modules.objectives.alignprop import AlignProp
from modules.objectives.best_of_n import BestOfN
from modules.objectives.candidate_files import Rounds
from modules.objectives.candidates import Candidates
from modules.objectives.denoising import Denoising
from modules.optim.exported_weights import ShownWeights
from modules.rewards.load import make_rewards
from modules.rewards.mixer import Mixer, Named
from modules.sampling.rollout import Rollout
from modules.trainer import Given, StepAbandoned, StepBatches
from modules.training.engine import Engine
from modules.training.evaluate_task import BaseScores, EvaluateTask, Looks
from onetrainer.config.objectives.denoising import Denoising as DenoisingSection
from onetrainer.config.rewards.algorithms import BestOfN as BestOfNSection
from onetrainer.config.rewards.alignprop import AlignProp as Section
from onetrainer.config.train import TrainConfig
from onetrainer.metrics.evaluation_files import RewardFiles, grid_of
from onetrainer.metrics.reward_names import names_of
from onetrainer.run.events import Phase


@dataclass(frozen=True)
class Learning(Generic[Given]):
    """What a step learns from, and what it makes of it."""

    batches: StepBatches[Given]
    objective: Objective[Given]


@dataclass(frozen=True)
class RewardParts:
    """What scores. mixer: in units of the base's scores as soon as these are known."""

    section: Section
    mixer: BaseScores

    @property
    def networks(self) -> nn.Module:
        """What of it has a place in the table of places."""
        return self.mixer().own_modules()

    def weights(self, *, trained: bool) -> dict[str, float]:
        """The weights of the rewards that are trained, or of those that are only watched."""
        names = names_of(self.section.rewards)
        pairs = zip(names, self.section.rewards, strict=True)
        return {name: each.weight for name, each in pairs if each.train == trained}


def load_rewards(run: Run) -> RewardParts | None:
    """The rewards of a config, on the temporary device; None where none are trained.

    Raises UserError for files that do not fit, and for functions that may not be run.
    """
    section, hardware = run.config.objective, run.config.hardware
    if not isinstance(section, Section):
        return None
    run.events.write(Phase("loading", detail="rewards"))
    made = make_rewards(
        section.rewards,
        device=offload_device_of(hardware.offload_device, run.device),
        dtype=precision_of("rewards", precision=hardware.precision).storage,
        offline=run.config.model.offline,
        tell=lambda detail: run.events.write(Phase("loading", detail=detail)),
    )
    return RewardParts(section, BaseScores(mixer_of(section, made)))


def mixer_of(section: Section, rewards: Sequence[Reward]) -> Mixer:
    """The rewards of a config, each as the config counts it."""
    named = zip(names_of(section.rewards), section.rewards, rewards, strict=True)
    return Mixer(
        [
            Named(
                name,
                reward,
                is_trained=each.train,
                weight=each.weight,
                target=each.target,
                normalize=each.normalize,
            )
            for name, each, reward in named
        ]
    )


def quick_of(config: TrainConfig, attached: Attached) -> Callable[[], AbstractContextManager[None]]:
    """The context of drawing without gradients: without dropout, and merged if that is wanted."""
    section, family = config.objective, attached.family
    assert isinstance(section, Section)
    if section.rollout.merge:
        return attached.method.merged
    own = attached.method.own_modules()
    return partial(quickened, (family.unet, *family.text_encoders.values(), own))


def rollout_of(config: TrainConfig, attached: Attached, *, device: torch.device) -> Rollout:
    """What draws the pictures of a config."""
    section = config.objective
    assert isinstance(section, Section)
    own = section.rollout
    return Rollout(
        attached.family,
        steps=own.steps,
        eta=own.eta,
        guidance=own.guidance,
        guidance_gradient=own.guidance_gradient,
        checkpoint=own.checkpoint,
        train_device=device,
        offload_device=offload_device_of(config.hardware.offload_device, device),
    )


def reward_objective(
    config: TrainConfig,
    attached: Attached,
    mixer: Callable[[], Mixer],
    *,
    device: torch.device,
    prompts: PromptBatches,
    rounds: Rounds | None = None,
    drawn_before: Callable[[int], int] = lambda step: step,
    tell: Callable[[int, int, int], None] = lambda *_: None,
) -> Objective[Batch | PromptBatch]:
    """What training minimises. rounds, drawn_before, tell: of best of n, see there."""
    section, method, family = config.objective, attached.method, attached.family
    assert isinstance(section, Section)
    rollout = rollout_of(config, attached, device=device)
    # Plain denoising, for ordinary steps and held-out pictures.
    denoising = Denoising(family, section=DenoisingSection(), device=device)
    merged = quick_of(config, attached)
    if isinstance(section.algorithm, BestOfNSection):
        candidates = Candidates(
            family,
            section=section.algorithm,
            mixer=mixer,
            rollout=rollout,
            prompts=prompts,
            merged=merged,
            tell=tell,
        )
        return BestOfN(
            candidates, denoising, section.algorithm.steps_per_round, rounds, drawn_before
        )
    return AlignProp(
        family,
        section=section,
        mixer=mixer,
        rollout=rollout,
        denoising=denoising,
        device=device,
        untouched=method.untouched,
        merged=merged,
    )


def learning_of(
    run: Run, attached: Attached, inputs: Inputs, rewards: RewardParts
) -> Learning[Batch | PromptBatch]:
    """The steps of a run, and what they make of their batches."""
    prompts, images = inputs.prompts, inputs.images
    assert prompts is not None
    batches = MixedBatches(
        prompts.batches,
        None if images is None else images.batches,
        share=ordinary_share(run.config),
        is_leaving=run.inbox.is_leaving,
    )
    objective = reward_objective(
        run.config,
        attached,
        rewards.mixer,
        device=run.device,
        prompts=prompts.batches,
        rounds=Rounds(run.folder.rewards, until=run.first_step),
        drawn_before=batches.drawn_before,
        tell=partial(_tell_of_candidates, run),
    )
    return Learning(batches, objective)


def looks_of(run: Run, rewards: RewardParts, inputs: Inputs) -> Looks:
    """The looks that the run has made up to where it goes on."""
    assert inputs.prompts is not None
    files = RewardFiles(
        run.folder.rewards,
        grid=grid_of(rewards.section, inputs.prompts.validation.prompts),
        until=run.last.step if run.last else None,
    )
    if files.others:
        run.warn(
            "what is looked at, or how it is scored, was changed since the checkpoint; rewards from"
            " before cannot be compared with those from now on, and do not count"
        )
    return Looks(
        files,
        rewards.section.evaluation,
        trained=rewards.weights(trained=True),
        watched=rewards.weights(trained=False),
    )


def evaluating_of(
    run: Run,
    attached: Attached,
    inputs: Inputs,
    rewards: RewardParts,
    looks: Looks,
    *,
    engine: Engine,
    shown: ShownWeights,
) -> EvaluateTask:
    """What looks at the held-out prompts."""
    assert inputs.prompts is not None
    section, method = rewards.section, attached.method
    return EvaluateTask(
        steps=run.config.training.steps,
        evaluator=Evaluator(
            family=attached.family,
            validation=inputs.prompts.validation,
            rollout=rollout_of(run.config, attached, device=run.device),
            merged=quick_of(run.config, attached),
            autocast=engine.autocast,
            untouched=method.untouched if section.evaluation.distance else None,
            device=run.device,
        ),
        rewards=rewards.mixer,
        looks=looks,
        method=method,
        engine=engine,
        shown=shown,
        folder=run.folder,
        events=run.events,
        inbox=run.inbox,
    )


def _tell_of_candidates(run: Run, step: int, done: int, total: int) -> None:
    """Says how far a round's drawing is; StepAbandoned if the run is to end."""
    if run.inbox.is_leaving():
        raise StepAbandoned
    if done < total:
        run.events.write(Phase("sampling", done, total, "candidates"))
    else:
        run.events.write(Phase("training", step, run.config.training.steps))
