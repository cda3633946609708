"""From a run's config and its model to everything that the loop needs."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

import torch

from modules.assembly.inputs import Inputs
from modules.assembly.metadata import ModelFacts, output_metadata
from modules.assembly.method import Attached, objective_of
from modules.assembly.optimizer import (
    ema_of,
    movement_of,
    named_parameters,
    steps_in_backward,
    stops_of,
)
from modules.assembly.rewards import Learning, RewardParts, evaluating_of, learning_of, looks_of
from modules.assembly.run_context import Run
from modules.assembly.validation_set import grid_of, history_of, validation_files
from modules.interfaces import Batch, Family, Method, PromptBatch
from modules.memory.residency import Residency
from modules.optim.build import build_optimizer
from modules.optim.ema import Ema
from modules.optim.exported_weights import ShownWeights
from modules.optim.optimizer_state import OptimizerProgress
from modules.sampling.image_files import base_name
from modules.trainer import Given, Task, Trainer
from modules.training.checkpoints import Checkpoints, TrainState
from modules.training.engine import Engine
from modules.training.evaluate_task import EvaluateTask, Looks
from modules.training.reporter import Reporter
from modules.training.tasks import SampleTask, SaveTask
from modules.training.validate_task import KeepBestTask, ValidateTask, kept_step
from onetrainer.config.train import TrainConfig
from onetrainer.metrics.validation_files import ValidationFiles
from onetrainer.schedules.learning_rate import lr_multiplier


@dataclass(frozen=True)
class _Moving:
    """What moves the weights, keeps them and shows them."""

    optimizer: torch.optim.Optimizer
    engine: Engine
    ema: Ema | None
    checkpoints: Checkpoints
    shown: ShownWeights


@dataclass(frozen=True)
class _Tasks:
    """What is done after a step, in this order, and those of it that may end the run."""

    each: tuple[Task, ...]
    ending: tuple[ValidateTask | EvaluateTask, ...]

    def have_enough(self) -> bool:
        """Whether one of them sees no use in going on."""
        return any(task.has_enough() for task in self.ending)


@dataclass(frozen=True)
class Assembled:
    """The loop, and what it does besides steps.

    validating: None if no pictures are held out. evaluating: None if no rewards are trained.
    """

    trainer: Trainer[Batch] | Trainer[Batch | PromptBatch]
    sampling: SampleTask
    saving: SaveTask
    validating: ValidateTask | None
    evaluating: EvaluateTask | None


def assemble(
    run: Run,
    attached: Attached,
    inputs: Inputs,
    rewards: RewardParts | None,
    residency: Residency,
) -> Assembled:
    """Everything the loop needs; in this order always: build, restore, hooks, then the loop."""
    files = validation_files(run, inputs.validation)
    looks = None if rewards is None else looks_of(run, rewards, inputs)
    moving = _moving(run, attached.method, partial(_kept_steps, run.config, files, looks))
    sampling = _sampling(run, attached, moving, residency)
    saving = _saving(run, attached, moving, inputs, sampling, residency)
    if rewards is None or looks is None:
        assert inputs.images is not None
        objective = objective_of(run.config, attached, device=run.device)
        learning = Learning(inputs.images.batches, objective)
        validating = _validating(run, attached, inputs, moving, learning, files, residency)
        tasks = _tasks(run, sampling, saving, validating, None)
        trainer = _trainer(run, attached.method, moving, learning, tasks)
        return Assembled(trainer, sampling, saving, validating, None)
    rewarded = learning_of(run, attached, inputs, rewards)
    validating = _validating(run, attached, inputs, moving, rewarded, files, residency)
    evaluating = evaluating_of(
        run, attached, inputs, rewards, looks, engine=moving.engine, shown=moving.shown
    )
    tasks = _tasks(run, sampling, saving, validating, evaluating)
    return Assembled(
        _trainer(run, attached.method, moving, rewarded, tasks),
        sampling,
        saving,
        validating,
        evaluating,
    )


def _trainer(
    run: Run, method: Method, moving: _Moving, learning: Learning[Given], tasks: _Tasks
) -> Trainer[Given]:
    config = run.config
    return Trainer(
        state=TrainState(run.first_step),
        steps=config.training.steps,
        seed=config.training.seed,
        batches=learning.batches,
        objective=learning.objective,
        method=method,
        engine=moving.engine,
        optimizer=moving.optimizer,
        lr_multiplier=partial(_multiplier, config),
        ema=moving.ema,
        report=Reporter(
            run.events,
            device=run.device,
            total_steps=config.training.steps,
            precision=config.hardware.precision,
        ),
        inbox=run.inbox,
        tasks=tasks.each,
        has_enough=tasks.have_enough,
    )


def _moving(run: Run, method: Method, best_steps: Callable[[], Collection[int]]) -> _Moving:
    """Built, restored from the run's newest checkpoint, and only then hooked into backward."""
    config, groups = run.config, method.parameter_groups()
    optimizer = build_optimizer(config.optimizer, groups)
    movement = movement_of(config, optimizer)
    engine = Engine(
        device=run.device,
        precision=config.hardware.precision,
        movement=movement,
        stops=stops_of(groups),
        gradient_clipping=config.training.gradient_clipping,
    )
    ema = ema_of(config, groups)
    checkpoints = Checkpoints(
        folder=run.folder,
        method=method,
        optimizer=OptimizerProgress(optimizer, named_parameters(groups)),
        ema=ema,
        engine=engine,
        keep=config.output.keep_checkpoints,
        best_steps=best_steps,
    )
    checkpoints.clean()
    if run.last is not None:
        for text in checkpoints.restore(run.last):
            run.warn(text)
    if steps_in_backward(config):
        engine.fused_backward()
    method.train(True)
    shown = ShownWeights(movement, ema, method.after_step)
    return _Moving(optimizer, engine, ema, checkpoints, shown)


def _sampling(run: Run, attached: Attached, moving: _Moving, residency: Residency) -> SampleTask:
    return SampleTask(
        section=run.config.sampling,
        steps=run.config.training.steps,
        family=attached.family,
        method=attached.method,
        engine=moving.engine,
        shown=moving.shown,
        shows_both=run.config.ema.use and run.config.ema.sample_both,
        folder=run.folder,
        events=run.events,
        inbox=run.inbox,
        config_digest=run.digest,
        model=base_name(run.config.model.path),
        clip_skip=run.config.model.clip_skip,
        phase=residency.phase,
    )


def _saving(
    run: Run,
    attached: Attached,
    moving: _Moving,
    inputs: Inputs,
    sampling: SampleTask,
    residency: Residency,
) -> SaveTask:
    return SaveTask(
        section=run.config.output,
        folder=run.folder,
        method=attached.method,
        engine=moving.engine,
        shown=moving.shown,
        checkpoints=moving.checkpoints,
        events=run.events,
        inbox=run.inbox,
        config_digest=run.digest,
        data_digest=inputs.digest,
        validation=history_of(inputs.validation, run.last),
        versions=run.versions,
        metadata=_metadata(run.config, attached.family, inputs),
        thumbnail=sampling.thumbnail,
        phase=residency.phase,
    )


def _validating(
    run: Run,
    attached: Attached,
    inputs: Inputs,
    moving: _Moving,
    learning: Learning[Batch] | Learning[Batch | PromptBatch],
    files: ValidationFiles | None,
    residency: Residency,
) -> ValidateTask | None:
    if files is None:
        return None
    assert inputs.validation is not None
    section = run.config.validation
    return ValidateTask(
        section=section,
        steps=run.config.training.steps,
        images=inputs.validation,
        grid=grid_of(run.config),
        precision=run.config.hardware.precision,
        at_once=run.config.training.batch_size,
        objective=learning.objective,
        method=attached.method,
        engine=moving.engine,
        shown=moving.shown,
        measures_both=run.config.ema.use and section.without_ema,
        files=files,
        epoch_of=learning.batches.epoch_of,
        events=run.events,
        inbox=run.inbox,
        phase=residency.phase,
    )


def _tasks(
    run: Run,
    sampling: SampleTask,
    saving: SaveTask,
    validating: ValidateTask | None,
    evaluating: EvaluateTask | None,
) -> _Tasks:
    """In the order that they are done in after a step."""
    ending = tuple(task for task in (validating, evaluating) if task is not None)
    # What is looked at by rewards decides which step was the best, where both are to tell.
    finding = [task for task in ending if task.keeps_best][-1:]
    keeping = [KeepBestTask(task, saving, run.folder) for task in finding]
    return _Tasks((*ending, sampling, saving, *keeping), ending)


def _kept_steps(
    config: TrainConfig, files: ValidationFiles | None, looks: Looks | None
) -> Collection[int]:
    """The steps whose checkpoints are kept whatever comes after them."""
    is_by_rewards = looks is not None and looks.section.keep_best
    best = looks.best_step() if looks and is_by_rewards else kept_step(config.validation, files)
    return () if best is None else (best,)


def _metadata(
    config: TrainConfig, family: Family, inputs: Inputs
) -> Callable[[int, bytes | None], dict[str, str]]:
    """What a file tells that is written after a step, with a thumbnail or without."""
    return partial(output_metadata, config, ModelFacts.of(family), inputs.facts())


def _multiplier(config: TrainConfig, step: int) -> float:
    return lr_multiplier(config.schedule, step=step, steps=config.training.steps)
