"""The job of training: from a run folder to the file that other programs load."""

import hashlib
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata as packages
from typing import TypeGuard

import torch

from modules.build import build_optimizer, load_family
from modules.data.cache import CachingStopped
from modules.engine import Engine
from modules.families.hub import fetch
from modules.inbox import Inbox
from modules.interfaces import Family, Method
from modules.jobs.data import Pictures, prepare_pictures
from modules.jobs.metadata import DatasetFacts, ModelFacts, output_metadata
from modules.jobs.tasks import SampleTask, SaveTask
from modules.memory.precision import choose_device, compute_dtype
from modules.methods.lora import Lora
from modules.metrics import Reporter
from modules.objectives.denoising import Denoising
from modules.sampling.pictures import base_name
from modules.state import CheckpointRecord, Checkpoints, TrainState, newest_record
from modules.trainer import Trainer
from onetrainer.config.migrate import migrate
from onetrainer.config.model import Model
from onetrainer.config.train import TrainConfig
from onetrainer.curves import lr_multiplier
from onetrainer.errors import EXIT_DONE, EXIT_STOPPED, UserError
from onetrainer.event_log import EventWriter, read_all, rewind
from onetrainer.events import (
    Checkpoint,
    Event,
    Finished,
    Phase,
    Sample,
    Started,
    Stopped,
    Warned,
)
from onetrainer.hub import is_hub_name
from onetrainer.json_file import read_json
from onetrainer.presets import resolve
from onetrainer.run_folder import RunFolder

PACKAGES = ("torch", "diffusers", "transformers", "accelerate", "lycoris_lora")
BASE_MODEL = "base model"
"""Stands among the versions: which commit of a model of the hub the run trains on."""


@dataclass(frozen=True)
class _Run:
    """What every stage of the job needs.

    versions: of what is installed, and of a model of the hub as soon as that is known.
    last: the checkpoint it continues from, if any. kept: what the run has told up to it.
    """

    folder: RunFolder
    config: TrainConfig
    digest: str
    versions: dict[str, str]
    events: EventWriter
    inbox: Inbox
    device: torch.device
    last: CheckpointRecord | None
    kept: list[Event]

    @property
    def first_step(self) -> int:
        return self.last.step if self.last else 0

    @property
    def told(self) -> set[str]:
        return {event.text for event in self.kept if isinstance(event, Warned)}

    def warn(self, text: str) -> None:
        """Tells something once, however often the run is resumed."""
        if text not in self.told:
            self.events.write(Warned(text))


def train(folder: RunFolder) -> int:
    """Trains a run folder's config from its newest checkpoint; returns the exit code."""
    config, digest = _read_config(folder)
    if config.hardware.threads:
        torch.set_num_threads(config.hardware.threads)
    last = newest_record(folder)
    _refuse_shortened(config, last)
    # What came after the checkpoint happens again; told twice it would be wrong.
    rewind(folder.events, last.events_size if last else 0)
    kept = read_all(folder.events)
    events = EventWriter(folder.events)
    inbox = Inbox(folder.commands)
    try:
        device = choose_device(config.hardware.device)
        versions = _libraries() | _known_model(config.model, last)
        run = _Run(folder, config, digest, versions, events, inbox, device, last, kept)
        return _train(run)
    finally:
        inbox.close()
        events.close()


def _train(run: _Run) -> int:
    _announce(run)
    _warn_of_slow_precision(run)
    run, model = _located(run)
    run.events.write(Phase("loading", detail="base model"))
    family = load_family(
        model,
        compute_dtype=compute_dtype(run.config.hardware.precision),
        device=run.device,
    )
    try:
        pictures = prepare_pictures(
            run.config,
            family,
            cache=run.folder.path.parent / "cache",
            device=run.device,
            events=run.events,
            should_stop=run.inbox.is_leaving,
            told=run.told,
        )
    except CachingStopped:
        run.events.write(Stopped(run.first_step, run.inbox.leaving or "stop"))
        return EXIT_STOPPED
    trainer, sampling, saving = _assemble(run, family, pictures)
    if run.last is not None and run.last.data_digest != pictures.digest:
        run.warn("the pictures or captions were changed since the checkpoint; they count from now")
    if sampling.is_planned(run.first_step):
        # Of a run that was asked to end meanwhile, some are still to be drawn.
        drawn = {event.prompt_index for event in run.kept if _is_sample(event, run.first_step)}
        sampling.draw(run.first_step, without=drawn)
    return _finish(run, trainer.run(), trainer.state.step, saving, pictures)


def _located(run: _Run) -> tuple[_Run, Model]:
    """The run, and its base model's section with a path on this disk: hub names are downloaded.

    Of a model of the hub the run then knows the version. A resumed one asks for that it began with.
    """
    section = run.config.model
    if not is_hub_name(section.path):
        return run, section
    known = run.versions.get(BASE_MODEL, "")
    folder = fetch(
        section.path,
        offline=section.offline,
        tell=lambda detail: run.events.write(Phase("loading", detail=detail)),
        revision=known.rpartition("@")[2] or None,
    )
    versions = run.versions | {BASE_MODEL: f"{section.path}@{folder.name}"}
    return replace(run, versions=versions), section.model_copy(update={"path": str(folder)})


def _assemble(
    run: _Run, family: Family, pictures: Pictures
) -> tuple[Trainer, SampleTask, SaveTask]:
    """Everything the loop needs; in this order always: build, restore, then the loop."""
    config = run.config
    method = Lora.attach(family, config.method, seed=config.training.seed)
    if config.hardware.gradient_checkpointing:
        family.enable_gradient_checkpointing(text_encoders=config.method.train_text_encoder)
    optimizer = build_optimizer(config.optimizer, method.parameter_groups())
    engine = Engine(
        device=run.device,
        precision=config.hardware.precision,
        optimizer=optimizer,
        gradient_clipping=config.training.gradient_clipping,
    )
    checkpoints = Checkpoints(run.folder, method, optimizer, engine, config.output.keep_checkpoints)
    checkpoints.clean()
    if run.last is not None:
        checkpoints.restore(run.last)
    method.train(True)
    sampling = _sampling(run, family, method, engine)
    saving = SaveTask(
        section=config.output,
        folder=run.folder,
        method=method,
        engine=engine,
        checkpoints=checkpoints,
        events=run.events,
        inbox=run.inbox,
        config_digest=run.digest,
        data_digest=pictures.digest,
        versions=run.versions,
        metadata=_metadata(config, family, pictures),
        thumbnail=sampling.thumbnail,
    )
    trainer = Trainer(
        state=TrainState(run.first_step),
        steps=config.training.steps,
        seed=config.training.seed,
        batches=pictures.batches,
        objective=Denoising(family, device=run.device),
        engine=engine,
        optimizer=optimizer,
        lr_multiplier=partial(_multiplier, config),
        report=Reporter(run.events, device=run.device, total_steps=config.training.steps),
        inbox=run.inbox,
        tasks=(sampling, saving),
    )
    return trainer, sampling, saving


def _sampling(run: _Run, family: Family, method: Method, engine: Engine) -> SampleTask:
    return SampleTask(
        section=run.config.sampling,
        steps=run.config.training.steps,
        family=family,
        method=method,
        engine=engine,
        folder=run.folder,
        events=run.events,
        inbox=run.inbox,
        config_digest=run.digest,
        model=base_name(run.config.model.path),
        clip_skip=run.config.model.clip_skip,
    )


def _metadata(
    config: TrainConfig, family: Family, pictures: Pictures
) -> Callable[[int, bytes | None], dict[str, str]]:
    """What a file tells that is written after a step, with a thumbnail or without."""
    batches = pictures.batches
    facts = DatasetFacts.of(batches.dataset, batches.plan, pictures.digest)
    return partial(output_metadata, config, ModelFacts.of(family), facts)


def _finish(run: _Run, ending: str, step: int, saving: SaveTask, pictures: Pictures) -> int:
    """Saves, writes the file, and says how it ended."""
    complete = [made for made, _ in run.folder.complete_checkpoints()]
    if step > 0 and step not in complete:
        saving.checkpoint(step)
    if ending == "pause" or step == 0:
        run.events.write(Stopped(step, "pause" if ending == "pause" else "stop"))
        return EXIT_STOPPED
    path = saving.export(step, is_final=ending == "done")
    outputs = [path.relative_to(run.folder.path).as_posix()]
    if ending == "stop":
        run.events.write(Stopped(step, "stop", outputs))
        return EXIT_STOPPED
    run.events.write(Finished(step, outputs, _summary(pictures)))
    return EXIT_DONE


def _announce(run: _Run) -> None:
    if run.last is not None:
        # Its own event came after the size it remembers, and was rewound with the rest.
        path = run.folder.checkpoint(run.last.step).relative_to(run.folder.path)
        run.events.write(Checkpoint(run.last.step, path.as_posix()))
    total = run.config.training.steps
    run.events.write(Started(os.getpid(), run.first_step, total, run.versions))
    if run.last is not None and run.last.config_digest != run.digest:
        run.warn("config.json was changed since the checkpoint; it counts from now")
    if run.last is not None and _without_model(run.last.versions) != _without_model(run.versions):
        run.warn("the installed libraries changed since the checkpoint; results may differ")


def _warn_of_slow_precision(run: _Run) -> None:
    precision = run.config.hardware.precision
    if run.device.type == "cpu" and precision != "fp32":
        run.warn(
            f"training in {precision} on the processor, which has no hardware for it; fp32"
            " (hardware.precision) is usually several times faster there"
        )


def _is_sample(event: Event, step: int) -> TypeGuard[Sample]:
    return isinstance(event, Sample) and event.step == step


def _refuse_shortened(config: TrainConfig, last: CheckpointRecord | None) -> None:
    if last is not None and last.step > config.training.steps:
        raise UserError(
            f"training.steps: {config.training.steps} steps, but {last.step} are made already",
            "Expected at least as many as the newest checkpoint has",
            "Raise training.steps in the run's config.json, or start a new run.",
        )


def _summary(pictures: Pictures) -> list[str]:
    count = len(pictures.batches.dataset.items)
    lines = [f"Trained on {count} picture{'s' if count != 1 else ''}."]
    if pictures.left_out:
        lines.append(f"{len(pictures.left_out)} left out:")
        lines += pictures.left_out
    return lines


def _read_config(folder: RunFolder) -> tuple[TrainConfig, str]:
    """The run's config, and the digest that tells whether it was changed later."""
    document = migrate(read_json(folder.config), source=str(folder.config))
    config = resolve(document, source=str(folder.config))
    return config, hashlib.sha256(config.model_dump_json().encode()).hexdigest()


def _multiplier(config: TrainConfig, step: int) -> float:
    return lr_multiplier(
        config.schedule.kind,
        step=step,
        steps=config.training.steps,
        warmup_steps=config.schedule.warmup_steps,
    )


def _libraries() -> dict[str, str]:
    found = {name: packages.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **found}


def _known_model(section: Model, last: CheckpointRecord | None) -> dict[str, str]:
    """The version of the model that a run began with; none if another model is asked for now."""
    known = last.versions.get(BASE_MODEL, "") if last else ""
    return {BASE_MODEL: known} if known.startswith(f"{section.path}@") else {}


def _without_model(versions: dict[str, str]) -> dict[str, str]:
    return {name: version for name, version in versions.items() if name != BASE_MODEL}
