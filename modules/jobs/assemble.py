"""From a run's config and its model to everything that the loop needs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from modules.build import build_optimizer
from modules.engine import Engine
from modules.interfaces import Family, Method
from modules.jobs.attach import Attached, needs_text_gradients, objective_of
from modules.jobs.data import Pictures
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
from modules.metrics import Reporter
from modules.optim.ema import Ema
from modules.optim.progress import OptimizerProgress
from modules.optim.shown import ShownWeights
from modules.sampling.pictures import base_name
from modules.state import Checkpoints, TrainState
from modules.trainer import Trainer
from onetrainer.config.full import Vae
from onetrainer.config.train import TrainConfig
from onetrainer.curves import lr_multiplier


@dataclass(frozen=True)
class _Moving:
    """What moves the weights, keeps them and shows them."""

    optimizer: torch.optim.Optimizer
    engine: Engine
    ema: Ema | None
    checkpoints: Checkpoints
    shown: ShownWeights


def assemble(
    run: Run, attached: Attached, pictures: Pictures
) -> tuple[Trainer, SampleTask, SaveTask]:
    """Everything the loop needs; in this order always: build, restore, hooks, then the loop."""
    config = run.config
    if config.hardware.gradient_checkpointing:
        attached.family.enable_gradient_checkpointing(
            text_encoders=needs_text_gradients(config), vae=isinstance(config.method, Vae)
        )
    objective = objective_of(config, attached, device=run.device)
    moving = _moving(run, attached.method)
    sampling = _sampling(run, attached, moving)
    saving = _saving(run, attached, moving, pictures, sampling)
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
        report=Reporter(run.events, device=run.device, total_steps=config.training.steps),
        inbox=run.inbox,
        tasks=(sampling, saving),
    )
    return trainer, sampling, saving


def _moving(run: Run, method: Method) -> _Moving:
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


def _sampling(run: Run, attached: Attached, moving: _Moving) -> SampleTask:
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
    )


def _saving(
    run: Run, attached: Attached, moving: _Moving, pictures: Pictures, sampling: SampleTask
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
        versions=run.versions,
        metadata=_metadata(run.config, attached.family, pictures),
        thumbnail=sampling.thumbnail,
    )


def _metadata(
    config: TrainConfig, family: Family, pictures: Pictures
) -> Callable[[int, bytes | None], dict[str, str]]:
    """What a file tells that is written after a step, with a thumbnail or without."""
    batches = pictures.batches
    facts = DatasetFacts.of(batches.dataset, batches.plan, pictures.digest)
    return partial(output_metadata, config, ModelFacts.of(family), facts)


def _multiplier(config: TrainConfig, step: int) -> float:
    return lr_multiplier(config.schedule, step=step, steps=config.training.steps)
