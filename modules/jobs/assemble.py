"""From a run's config and its model to everything that the loop needs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from modules.build import build_optimizer
from modules.engine import Engine
from modules.interfaces import Family, Method, Objective
from modules.jobs.attach import Attached, objective_of
from modules.jobs.data import Pictures
from modules.jobs.held_out import grid_of, held_out_files, history_of
from modules.jobs.metadata import DatasetFacts, ModelFacts, output_metadata
from modules.jobs.run import Run
from modules.jobs.stepping import (
    ema_of,
    movement_of,
    named_parameters,
    steps_in_backward,
    stops_of,
)
from modules.jobs.tasks import SampleTask, SaveTask
from modules.jobs.validate import KeepBestTask, ValidateTask, kept_step
from modules.memory.residency import Residency
from modules.metrics import Reporter
from modules.optim.ema import Ema
from modules.optim.progress import OptimizerProgress
from modules.optim.shown import ShownWeights
from modules.sampling.pictures import base_name
from modules.state import Checkpoints, TrainState
from modules.trainer import Task, Trainer
from onetrainer.config.train import TrainConfig
from onetrainer.curves import lr_multiplier
from onetrainer.held_out_files import HeldOutFiles


@dataclass(frozen=True)
class _Moving:
    """What moves the weights, keeps them and shows them."""

    optimizer: torch.optim.Optimizer
    engine: Engine
    ema: Ema | None
    checkpoints: Checkpoints
    shown: ShownWeights


@dataclass(frozen=True)
class Assembled:
    """The loop, and what it does besides steps. validating: None if nothing is held out."""

    trainer: Trainer
    sampling: SampleTask
    saving: SaveTask
    validating: ValidateTask | None


def assemble(run: Run, attached: Attached, pictures: Pictures, residency: Residency) -> Assembled:
    """Everything the loop needs; in this order always: build, restore, hooks, then the loop."""
    config = run.config
    objective = objective_of(config, attached, device=run.device)
    files = held_out_files(run, pictures.held_out)
    moving = _moving(run, attached.method, partial(kept_step, config.validation, files))
    sampling = _sampling(run, attached, moving, residency)
    saving = _saving(run, attached, moving, pictures, sampling, residency)
    validating = None
    if files is not None:
        validating = _validating(run, attached, pictures, moving, objective, files, residency)
    trainer = Trainer(
        state=TrainState(run.first_step),
        steps=config.training.steps,
        seed=config.training.seed,
        batches=pictures.batches,
        objective=objective,
        method=attached.method,
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
        tasks=_tasks(run, sampling, saving, validating),
        has_enough=_never if validating is None else validating.has_enough,
    )
    return Assembled(trainer, sampling, saving, validating)


def _moving(run: Run, method: Method, best_step: Callable[[], int | None]) -> _Moving:
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
        best_step=best_step,
    )
    checkpoints.clean()
    if run.last is not None:
        for text in checkpoints.restore(run.last):
            run.warn(text)
    if steps_in_backward(config):
        engine.step_in_backward()
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
    pictures: Pictures,
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
        data_digest=pictures.digest,
        held_out=history_of(pictures.held_out, run.last),
        versions=run.versions,
        metadata=_metadata(run.config, attached.family, pictures),
        thumbnail=sampling.thumbnail,
        phase=residency.phase,
    )


def _validating(
    run: Run,
    attached: Attached,
    pictures: Pictures,
    moving: _Moving,
    objective: Objective,
    files: HeldOutFiles,
    residency: Residency,
) -> ValidateTask:
    assert pictures.held_out is not None
    section = run.config.validation
    return ValidateTask(
        section=section,
        steps=run.config.training.steps,
        pictures=pictures.held_out,
        grid=grid_of(run.config),
        precision=run.config.hardware.precision,
        at_once=run.config.training.batch_size,
        objective=objective,
        method=attached.method,
        engine=moving.engine,
        shown=moving.shown,
        measures_both=run.config.ema.use and section.without_average,
        files=files,
        epoch_of=pictures.batches.epoch_of,
        events=run.events,
        inbox=run.inbox,
        phase=residency.phase,
    )


def _tasks(
    run: Run, sampling: SampleTask, saving: SaveTask, validating: ValidateTask | None
) -> tuple[Task, ...]:
    """In the order that they are done in after a step."""
    if validating is None:
        return (sampling, saving)
    return (validating, sampling, saving, KeepBestTask(validating, saving, run.folder))


def _never() -> bool:
    return False


def _metadata(
    config: TrainConfig, family: Family, pictures: Pictures
) -> Callable[[int, bytes | None], dict[str, str]]:
    """What a file tells that is written after a step, with a thumbnail or without."""
    batches = pictures.batches
    held_out = 0 if pictures.held_out is None else len(pictures.held_out.names)
    facts = DatasetFacts.of(batches.dataset, batches.plan, pictures.digest, held_out=held_out)
    return partial(output_metadata, config, ModelFacts.of(family), facts)


def _multiplier(config: TrainConfig, step: int) -> float:
    return lr_multiplier(config.schedule, step=step, steps=config.training.steps)
