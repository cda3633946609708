"""The trainer and its tasks, from a run's config and model."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

import torch

from modules.assembly.inputs import Inputs
from modules.assembly.metadata import ModelFacts, output_metadata
from modules.assembly.method import Attached, objective_of
from modules.assembly.optimizer import (
    ema_of,
    freeze_schedule_of,
    named_parameters,
    uses_fused_backward,
    weight_updater_of,
)
from modules.assembly.rewards import (
    LoadedRewards,
    LossSource,
    evaluate_task_of,
    evaluations_of,
    reward_loss_source,
)
from modules.assembly.run_context import Run
from modules.assembly.validation_set import grid_of, validation_files, validation_record
from modules.interfaces import Batch, Method, PromptBatch
from modules.memory.residency import Residency
from modules.optim.build import build_optimizer
from modules.optim.ema import Ema
from modules.optim.exported_weights import ExportedWeights
from modules.optim.optimizer_state import OptimizerProgress
from modules.sampling.image_files import base_name
from modules.trainer import BatchT, Task, Trainer
from modules.training.checkpoints import Checkpoints, TrainState
from modules.training.engine import Engine
from modules.training.evaluate_task import EvaluateTask, Evaluations
from modules.training.reporter import Reporter
from modules.training.tasks import SampleTask, SaveTask
from modules.training.validate_task import KeepBestTask, ValidateTask, saved_best_step
from onetrainer.config.train import TrainConfig
from onetrainer.metrics.validation_files import ValidationFiles
from onetrainer.schedules.learning_rate import lr_multiplier


@dataclass(frozen=True)
class _Optimization:
    """What updates, saves and exports the trained weights."""

    optimizer: torch.optim.Optimizer
    engine: Engine
    ema: Ema | None
    checkpoints: Checkpoints
    exported: ExportedWeights


@dataclass(frozen=True)
class _Tasks:
    """Tasks after a step in their order.

    Attributes:
        ending: Those that may end the run early.
    """

    each: tuple[Task, ...]
    ending: tuple[ValidateTask | EvaluateTask, ...]

    def should_stop_early(self) -> bool:
        """Return whether any task asks to stop."""
        return any(task.should_stop_early() for task in self.ending)


@dataclass(frozen=True)
class Assembled:
    """The trainer with its tasks.

    Attributes:
        validation_task: None without validation.
        evaluation_task: None without reward training.
    """

    trainer: Trainer[Batch] | Trainer[Batch | PromptBatch]
    sampling_task: SampleTask
    save_task: SaveTask
    validation_task: ValidateTask | None
    evaluation_task: EvaluateTask | None


def assemble(
    run: Run,
    attached: Attached,
    inputs: Inputs,
    rewards: LoadedRewards | None,
    residency: Residency,
) -> Assembled:
    """Build the trainer: create, restore, register hooks, in this order."""
    files = validation_files(run, inputs.validation)
    evaluations = None if rewards is None else evaluations_of(run, rewards, inputs)
    optimization = _optimization(
        run, attached.method, partial(_best_steps, run.config, files, evaluations)
    )
    sampling_task = _build_sample_task(run, attached, optimization, residency)
    save_task = _build_save_task(run, attached, optimization, inputs, sampling_task, residency)
    if rewards is None or evaluations is None:
        assert inputs.images is not None
        objective = objective_of(run.config, attached, device=run.device)
        source = LossSource(inputs.images.batches, objective)
        validation_task = _build_validate_task(
            run, attached, inputs, optimization, source, files, residency
        )
        tasks = _tasks(run, sampling_task, save_task, validation_task, None)
        trainer = _build_trainer(run, attached.method, optimization, source, tasks)
        return Assembled(trainer, sampling_task, save_task, validation_task, None)
    reward_source = reward_loss_source(run, attached, inputs, rewards)
    validation_task = _build_validate_task(
        run, attached, inputs, optimization, reward_source, files, residency
    )
    evaluation_task = evaluate_task_of(
        run,
        attached,
        inputs,
        rewards,
        evaluations,
        engine=optimization.engine,
        exported=optimization.exported,
    )
    tasks = _tasks(run, sampling_task, save_task, validation_task, evaluation_task)
    return Assembled(
        _build_trainer(run, attached.method, optimization, reward_source, tasks),
        sampling_task,
        save_task,
        validation_task,
        evaluation_task,
    )


def _build_trainer(
    run: Run, method: Method, optimization: _Optimization, source: LossSource[BatchT], tasks: _Tasks
) -> Trainer[BatchT]:
    config = run.config
    return Trainer(
        state=TrainState(run.first_step),
        steps=config.training.steps,
        seed=config.training.seed,
        batches=source.batches,
        objective=source.objective,
        method=method,
        engine=optimization.engine,
        optimizer=optimization.optimizer,
        lr_multiplier=lambda step: lr_multiplier(
            config.schedule, step=step, steps=config.training.steps
        ),
        ema=optimization.ema,
        report=Reporter(
            run.events,
            device=run.device,
            total_steps=config.training.steps,
            precision=config.hardware.precision,
        ),
        inbox=run.inbox,
        tasks=tasks.each,
        should_stop_early=tasks.should_stop_early,
    )


def _optimization(
    run: Run, method: Method, best_steps: Callable[[], Collection[int]]
) -> _Optimization:
    """Build the optimizer, restore the newest checkpoint, then register backward hooks."""
    config, groups = run.config, method.parameter_groups()
    optimizer = build_optimizer(config.optimizer, groups)
    updater = weight_updater_of(config, optimizer)
    engine = Engine(
        device=run.device,
        precision=config.hardware.precision,
        updater=updater,
        freeze_schedule=freeze_schedule_of(groups),
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
    if uses_fused_backward(config):
        engine.enable_fused_backward()
    method.train(True)
    exported = ExportedWeights(updater, ema, method.after_step)
    return _Optimization(optimizer, engine, ema, checkpoints, exported)


def _build_sample_task(
    run: Run, attached: Attached, optimization: _Optimization, residency: Residency
) -> SampleTask:
    return SampleTask(
        section=run.config.sampling,
        steps=run.config.training.steps,
        family=attached.family,
        method=attached.method,
        engine=optimization.engine,
        exported=optimization.exported,
        samples_last_weights=run.config.ema.use and run.config.ema.sample_both,
        folder=run.folder,
        events=run.events,
        inbox=run.inbox,
        config_digest=run.digest,
        model=base_name(run.config.model.path),
        clip_skip=run.config.model.clip_skip,
        phase=residency.phase,
    )


def _build_save_task(
    run: Run,
    attached: Attached,
    optimization: _Optimization,
    inputs: Inputs,
    sampling_task: SampleTask,
    residency: Residency,
) -> SaveTask:
    return SaveTask(
        section=run.config.output,
        folder=run.folder,
        method=attached.method,
        engine=optimization.engine,
        exported=optimization.exported,
        checkpoints=optimization.checkpoints,
        events=run.events,
        inbox=run.inbox,
        config_digest=run.digest,
        data_digest=inputs.digest,
        data_identity=inputs.identity,
        validation=validation_record(inputs.validation, run.last),
        versions=run.versions,
        metadata=partial(
            output_metadata, run.config, ModelFacts.of(attached.family), inputs.facts()
        ),
        thumbnail=sampling_task.thumbnail,
        phase=residency.phase,
    )


def _build_validate_task(
    run: Run,
    attached: Attached,
    inputs: Inputs,
    optimization: _Optimization,
    source: LossSource[Batch] | LossSource[Batch | PromptBatch],
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
        objective=source.objective,
        method=attached.method,
        engine=optimization.engine,
        exported=optimization.exported,
        measures_last_weights=run.config.ema.use and section.without_ema,
        files=files,
        epoch_of=source.batches.epoch_of,
        events=run.events,
        inbox=run.inbox,
        phase=residency.phase,
    )


def _tasks(
    run: Run,
    sampling_task: SampleTask,
    save_task: SaveTask,
    validation_task: ValidateTask | None,
    evaluation_task: EvaluateTask | None,
) -> _Tasks:
    """Return the tasks in the order in which they run after a step."""
    ending = tuple(task for task in (validation_task, evaluation_task) if task is not None)
    # If both could, the evaluation of rewards decides which step is the best.
    sources = [task for task in ending if task.saves_best][-1:]
    keep_best = [KeepBestTask(source, save_task, run.folder) for source in sources]
    return _Tasks((*ending, sampling_task, save_task, *keep_best), ending)


def _best_steps(
    config: TrainConfig, files: ValidationFiles | None, evaluations: Evaluations | None
) -> Collection[int]:
    """Return the steps whose checkpoints are kept however old they get."""
    is_by_rewards = evaluations is not None and evaluations.section.keep_best
    best = (
        evaluations.best_step()
        if evaluations and is_by_rewards
        else saved_best_step(config.validation, files)
    )
    return () if best is None else (best,)
