"""The job of training: from a run folder to the file that other programs load."""

import hashlib
import os
import platform
from dataclasses import replace
from importlib import metadata as packages
from typing import TypeGuard

import torch

from modules.build import load_family
from modules.data.cache import CachingStopped
from modules.families.hub import fetch
from modules.inbox import Inbox
from modules.interfaces import Family
from modules.jobs.assemble import assemble
from modules.jobs.attach import Attached, attach, trained_dtypes
from modules.jobs.data import Pictures, digests_for, prepare_pictures
from modules.jobs.run import Run
from modules.jobs.start_files import with_kept_files
from modules.jobs.stepping import require_something_moves
from modules.jobs.tasks import SaveTask
from modules.memory.precision import choose_device, compute_dtype
from modules.state import CheckpointRecord, newest_record
from onetrainer.config.migrate import migrate
from onetrainer.config.model import Model
from onetrainer.config.train import TrainConfig
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
)
from onetrainer.hub import is_hub_name
from onetrainer.json_file import read_json
from onetrainer.presets import resolve
from onetrainer.run_folder import RunFolder

PACKAGES = ("torch", "diffusers", "transformers", "accelerate", "lycoris_lora")
BASE_MODEL = "base model"
"""Stands among the versions: which commit of a model of the hub the run trains on."""


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
        run = Run(folder, config, digest, versions, events, inbox, device, last, kept)
        return _train(run)
    finally:
        inbox.close()
        events.close()


def _train(run: Run) -> int:
    _announce(run)
    _warn_of_slow_precision(run)
    run, model = _located(run)
    run.events.write(Phase("loading", detail="base model"))
    family = load_family(
        model,
        compute_dtype=compute_dtype(run.config.hardware.precision),
        device=run.device,
        dtypes=trained_dtypes(run.config),
    )
    digests = digests_for(run.config, family)
    attached = _attached(run, family, model)
    try:
        pictures = prepare_pictures(
            run.config,
            family,
            digests=digests,
            cache=run.folder.path.parent / "cache",
            device=run.device,
            events=run.events,
            should_stop=run.inbox.is_leaving,
            told=run.told,
        )
    except CachingStopped:
        run.events.write(Stopped(run.first_step, run.inbox.leaving or "stop"))
        return EXIT_STOPPED
    trainer, sampling, saving = assemble(run, attached, pictures)
    if run.last is not None and run.last.data_digest != pictures.digest:
        run.warn("the pictures or captions were changed since the checkpoint; they count from now")
    if sampling.is_planned(run.first_step):
        # Of a run that was asked to end meanwhile, some are still to be drawn.
        drawn = {event.prompt_index for event in run.kept if _is_sample(event, run.first_step)}
        sampling.draw(run.first_step, without=drawn)
    return _finish(run, trainer.run(), trainer.state.step, saving, pictures)


def _attached(run: Run, family: Family, base: Model) -> Attached:
    """What the run trains. Before pictures are encoded, so that what is wrong with it is told soon.

    base: the section of the family's model, with a path on this disk.
    """
    attached = attach(with_kept_files(run.config, run.folder), family, base)
    require_something_moves(run.config, attached.method.parameter_groups())
    for note in attached.notes:
        run.warn(note)
    return attached


def _located(run: Run) -> tuple[Run, Model]:
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


def _finish(run: Run, ending: str, step: int, saving: SaveTask, pictures: Pictures) -> int:
    """Saves, writes the file, and says how it ended."""
    complete = [made for made, _ in run.folder.complete_checkpoints()]
    if step > 0 and step not in complete:
        saving.checkpoint(step)
    if ending == "pause" or step == 0:
        run.events.write(Stopped(step, "pause" if ending == "pause" else "stop"))
        return EXIT_STOPPED
    written = saving.export(step, is_final=ending == "done")
    outputs = [path.relative_to(run.folder.path).as_posix() for path in written]
    if ending == "stop":
        run.events.write(Stopped(step, "stop", outputs))
        return EXIT_STOPPED
    run.events.write(Finished(step, outputs, _summary(pictures)))
    return EXIT_DONE


def _announce(run: Run) -> None:
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


def _warn_of_slow_precision(run: Run) -> None:
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
    count = len(pictures.batches.dataset.learnt)
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


def _libraries() -> dict[str, str]:
    found = {name: packages.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **found}


def _known_model(section: Model, last: CheckpointRecord | None) -> dict[str, str]:
    """The version of the model that a run began with; none if another model is asked for now."""
    known = last.versions.get(BASE_MODEL, "") if last else ""
    return {BASE_MODEL: known} if known.startswith(f"{section.path}@") else {}


def _without_model(versions: dict[str, str]) -> dict[str, str]:
    return {name: version for name, version in versions.items() if name != BASE_MODEL}
