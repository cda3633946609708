"""The trainer and its tasks, from a run's config and model."""

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
    prompt_evaluation_of,
    reward_loss_source,
)
from modules.assembly.run_context import Run
from modules.assembly.validation_set import grid_of, validation_files, validation_record
from modules.evaluation.validation import ImageEvaluation, ValidationImages
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
from modules.training.evaluate_task import EvaluateTask, Evaluation, KeepBestTask
from modules.training.reporter import Reporter
from modules.training.tasks import SampleTask, SaveTask
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
class Tasks:
    """Tasks between steps.

    Attributes:
        evaluate: Those that may end the run early: of images, then of prompts.
        deciding: Which evaluation decides on the best step; None if none is kept.
    """

    evaluate: tuple[EvaluateTask, ...]
    sample: SampleTask
    save: SaveTask
    deciding: Evaluation | None

    def in_order(self) -> tuple[Task, ...]:
        """Return the tasks in the order in which they run after a step."""
        keep = (KeepBestTask(self.deciding, self.save),) if self.deciding else ()
        return (*self.evaluate, self.sample, self.save, *keep)

    def should_stop_early(self) -> bool:
        """Return whether any evaluation asks to stop."""
        return any(task.evaluation.should_stop_early() for task in self.evaluate)


@dataclass(frozen=True)
class Assembled:
    """The trainer with its tasks."""

    trainer: Trainer[Batch] | Trainer[Batch | PromptBatch]
    tasks: Tasks


def assemble(
    run: Run,
    attached: Attached,
    inputs: Inputs,
    rewards: LoadedRewards | None,
    residency: Residency,
) -> Assembled:
    """Build the trainer: create, restore, register hooks, in this order."""
    optimization = _optimization(run, attached.method)
    if rewards is None:
        assert inputs.images is not None
        objective = objective_of(run.config, attached, device=run.device)
        source = LossSource(inputs.images.batches, objective)
        tasks = _tasks(run, attached, inputs, optimization, source, None, residency)
        return Assembled(_trainer(run, attached.method, optimization, source, tasks), tasks)
    reward_source = reward_loss_source(run, attached, inputs, rewards)
    tasks = _tasks(run, attached, inputs, optimization, reward_source, rewards, residency)
    return Assembled(_trainer(run, attached.method, optimization, reward_source, tasks), tasks)


def _trainer(
    run: Run, method: Method, optimization: _Optimization, source: LossSource[BatchT], tasks: Tasks
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
        tasks=tasks.in_order(),
        should_stop_early=tasks.should_stop_early,
    )


def _optimization(run: Run, method: Method) -> _Optimization:
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


def _tasks(
    run: Run,
    attached: Attached,
    inputs: Inputs,
    optimization: _Optimization,
    source: LossSource[Batch] | LossSource[Batch | PromptBatch],
    rewards: LoadedRewards | None,
    residency: Residency,
) -> Tasks:
    evaluations: list[Evaluation] = []
    if inputs.validation is not None:
        evaluations.append(
            _image_evaluation(run, inputs.validation, optimization, source, residency)
        )
    if rewards is not None:
        evaluations.append(
            prompt_evaluation_of(
                run,
                attached,
                inputs,
                rewards,
                engine=optimization.engine,
                exported=optimization.exported,
            )
        )
    evaluate = tuple(
        EvaluateTask(each, run.config.training.steps, attached.method, run.events, run.inbox)
        for each in evaluations
    )
    # If both could, the evaluation of rewards decides which step is the best.
    deciding = next((each for each in reversed(evaluations) if each.keeps_best), None)
    sample = _sample_task(run, attached, optimization, residency)
    save = _save_task(run, attached, optimization, inputs, sample, deciding, residency)
    return Tasks(evaluate, sample, save, deciding)


def _sample_task(
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


def _save_task(
    run: Run,
    attached: Attached,
    optimization: _Optimization,
    inputs: Inputs,
    sample: SampleTask,
    deciding: Evaluation | None,
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
        thumbnail=sample.thumbnail,
        best_step=deciding.best_step if deciding else lambda: None,
        phase=residency.phase,
    )


def _image_evaluation(
    run: Run,
    images: ValidationImages,
    optimization: _Optimization,
    source: LossSource[Batch] | LossSource[Batch | PromptBatch],
    residency: Residency,
) -> ImageEvaluation:
    section = run.config.validation
    measures_last = run.config.ema.use and section.without_ema
    return ImageEvaluation(
        section=section,
        steps=run.config.training.steps,
        images=images,
        grid=grid_of(run.config),
        precision=run.config.hardware.precision,
        at_once=run.config.training.batch_size,
        objective=source.objective,
        autocast=optimization.engine.autocast,
        exported=optimization.exported,
        weights=("sampling", "without_ema") if measures_last else ("sampling",),
        files=validation_files(run, images),
        epoch_of=source.batches.epoch_of,
        phase=residency.phase,
    )
