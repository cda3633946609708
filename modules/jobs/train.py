"""The job of training: from a run folder to the file that other programs load."""

import gc
import hashlib
import os
import platform
from contextlib import ExitStack, closing
from dataclasses import replace
from importlib import metadata as packages
from typing import TypeGuard

import torch

from modules.assembly.inputs import Inputs, encoders_of, prepare_inputs
from modules.assembly.method import Attached, attach
from modules.assembly.optimizer import require_something_moves
from modules.assembly.placement import (
    manage,
    offload_device_of,
    quantize,
    residency_of,
    storage_dtypes,
)
from modules.assembly.rewards import load_rewards
from modules.assembly.run_context import Run
from modules.assembly.start_files import with_kept_files
from modules.assembly.trainer import Assembled, assemble
from modules.data.cache import CachingStopped
from modules.data.encoded_items import EntryLost
from modules.families.hub import fetch
from modules.families.registry import load_family
from modules.families.stable_diffusion import StableDiffusion
from modules.forecast.forecast import choose_checkpointing, target_of
from modules.interfaces import Family
from modules.memory.precision import apply_tf32, choose_device, compute_dtype
from modules.memory.residency import Residency
from modules.training.checkpoints import CheckpointRecord, newest_record
from modules.training.inbox import Inbox
from modules.training.tensorboard import open_board
from modules.training.validate_task import export_best
from onetrainer.config.migrate import migrate
from onetrainer.config.run.model import Model
from onetrainer.config.train import TrainConfig
from onetrainer.errors import EXIT_DONE, EXIT_STOPPED, UserError
from onetrainer.json_file import read_json
from onetrainer.messages.memory import checkpointing_words
from onetrainer.model_files.hub import is_hub_name
from onetrainer.presets.presets import resolve
from onetrainer.run.event_log import EventWriter, read_all, rewind
from onetrainer.run.events import Checkpoint, Event, Finished, Phase, Sample, Started, Stopped
from onetrainer.run.run_folder import RunFolder

PACKAGES = ("torch", "diffusers", "transformers", "accelerate", "lycoris_lora")
BASE_MODEL = "base model"
"""Stands among the versions: which commit of a model of the hub the run trains on."""
_CHANGED = "the {} were changed since the checkpoint; they count from now"
_MAY_HAVE_TRAINED = (
    "some of the pictures that are held out now may have been learned in the steps before; their"
    " loss is then lower than that of pictures the model has never seen"
)


def train(folder: RunFolder) -> int:
    """Trains a run folder's config from its newest checkpoint; returns the exit code.

    Where something encoded is lost under it, what was learned is saved and it begins again from
    there, which makes that anew, with the same numbers as if nothing had happened.
    """
    note, since = "", -1
    with closing(Inbox(folder.commands)) as inbox:
        while True:
            try:
                return _begun(folder, inbox, note)
            except EntryLost as lost:
                last = newest_record(folder)
                step = last.step if last else 0
                if step == since:
                    raise  # it was just made anew: whatever takes it away goes on doing so
                note, since = f"{lost.what}; it was made anew", step
            # Not before here: until then the error holds on to everything that was on the device.
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()


def _begun(folder: RunFolder, inbox: Inbox, note: str) -> int:
    """One start. note: what happened to the one before. Raises EntryLost."""
    config, digest = _read_config(folder)
    apply_tf32(config.hardware.tf32)
    if config.hardware.threads:
        torch.set_num_threads(config.hardware.threads)
    last = newest_record(folder)
    _refuse_shortened(config, last)
    # What came after the checkpoint happens again; told twice it would be wrong.
    rewind(folder.events, last.events_size if last else 0)
    kept = read_all(folder.events)
    with ExitStack() as opened:
        also = None
        if config.output.tensorboard:
            board = open_board(folder.path, first_step=last.step if last else 0)
            opened.callback(board.close)
            also = board.take
        events = EventWriter(folder.events, also=also)
        opened.callback(events.close)
        device = choose_device(config.hardware.device)
        versions = _libraries() | _known_model(config.model, last)
        run = Run(folder, config, digest, versions, events, inbox, device, last, kept)
        _announce(run)
        if note:
            run.warn(note)
        return _train(run)


def _train(run: Run) -> int:
    _warn_of_slow_precision(run)
    run, model = _located(_decided(run))
    run.events.write(Phase("loading", detail="base model"))
    family = _loaded(run.config, model, run.device)
    for note in quantize(run.config, family, device=run.device):
        run.warn(note)
    digests = encoders_of(run, family)
    attached = _attached(run, family, model)
    rewards = load_rewards(run)
    layers = manage(run.config, attached.family, device=run.device)
    networks = None if rewards is None else rewards.networks
    residency = residency_of(run.config, attached, layers, device=run.device, rewards=networks)
    try:
        with residency.phase("caching"):
            inputs = prepare_inputs(run, family, digests)
    except CachingStopped:
        run.events.write(Stopped(run.first_step, run.inbox.leaving or "stop"))
        return EXIT_STOPPED
    with closing(inputs), residency.phase("training"):
        made = assemble(run, attached, inputs, rewards, residency)
        try:
            return _trained(run, made, inputs, residency)
        except EntryLost:
            made.trainer.report.flush()
            _keep(run, made)
            inputs.verify()  # so that all of it is made anew, and not one thing at each start
            raise


def _trained(run: Run, made: Assembled, inputs: Inputs, residency: Residency) -> int:
    """Trains to the end, draws, saves; the exit code."""
    if run.last is not None and run.last.data_digest != inputs.digest:
        run.warn(_CHANGED.format("prompts" if inputs.prompts else "pictures or captions"))
        if inputs.validation is not None:
            run.warn(_MAY_HAVE_TRAINED)
    # Of a run that was asked to end meanwhile, some is still to be measured and drawn.
    if made.validating is not None:
        made.validating.begin(run.first_step, run.kept)
    if made.evaluating is not None:
        made.evaluating.begin(run.first_step, run.kept)
    if made.sampling.is_planned(run.first_step):
        made.sampling.draw(run.first_step, without=_drawn(run, run.first_step))
    ending, step = made.trainer.run(), made.trainer.state.step
    if ending == "done" and made.sampling.misses_end(step):
        made.sampling.draw(step, without=_drawn(run, step))
    code = _finish(run, ending, made, inputs)
    residency.finish()
    return code


def _decided(run: Run) -> Run:
    """The run with automatic checkpointing decided by the memory that is free now."""
    hardware = run.config.hardware
    if hardware.gradient_checkpointing != "auto":
        return run
    run.events.write(Phase("loading", detail="counting memory"))
    target = target_of(run.config)
    policy = choose_checkpointing(run.config, target.available - target.program, target=target)
    chosen = f"gradient checkpointing: {checkpointing_words(policy)}"
    run.events.write(Phase("loading", detail=chosen))
    hardware = hardware.model_copy(update={"gradient_checkpointing": policy})
    return replace(run, config=run.config.model_copy(update={"hardware": hardware}))


def _loaded(config: TrainConfig, model: Model, device: torch.device) -> StableDiffusion:
    """The base model, with every part where it waits. model: its section, with a path here."""
    family = load_family(
        model,
        compute_dtype=compute_dtype(config.hardware.precision),
        device=device,
        parts_device=offload_device_of(config.hardware.offload_device, device),
        dtypes=storage_dtypes(config),
    )
    return replace(family, decodes_in_tiles=config.hardware.vae_tiling)


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


def _finish(run: Run, ending: str, made: Assembled, inputs: Inputs) -> int:
    """Saves, writes the files, and says how it ended."""
    step, saving = made.trainer.state.step, made.saving
    _keep(run, made)
    if ending == "pause" or step == 0:
        run.events.write(Stopped(step, "pause" if ending == "pause" else "stop"))
        return EXIT_STOPPED
    written, summary = saving.export(step, is_final=ending == "done"), inputs.summary()
    if made.evaluating is not None:
        best = export_best(made.evaluating, saving, step, is_final=ending == "done")
        # Of a run that the guard has stopped nobody wants what it ended with.
        written = best + written if made.evaluating.has_enough() else written + best
        summary += made.evaluating.summary(step, best)
    if made.validating is not None:
        # One file of the best: where rewards are trained, by what they say, if they are to.
        own = made.evaluating is None or not made.evaluating.keeps_best
        best = export_best(made.validating, saving, step, is_final=ending == "done") if own else []
        written += best
        summary += made.validating.summary(run.first_step, step, best)
    outputs = [path.relative_to(run.folder.path).as_posix() for path in written]
    if ending == "stop":
        run.events.write(Stopped(step, "stop", outputs))
        return EXIT_STOPPED
    run.events.write(Finished(step, outputs, summary))
    return EXIT_DONE


def _keep(run: Run, made: Assembled) -> None:
    """Sees to it that there is a checkpoint of the last step that was made."""
    step = made.trainer.state.step
    if step > 0 and step not in [number for number, _ in run.folder.complete_checkpoints()]:
        made.saving.checkpoint(step)


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


def _drawn(run: Run, step: int) -> set[int]:
    """Which samples of a step were drawn before the run was resumed."""
    return {event.prompt_index for event in run.kept if _is_sample(event, step)}


def _is_sample(event: Event, step: int) -> TypeGuard[Sample]:
    return isinstance(event, Sample) and event.step == step


def _refuse_shortened(config: TrainConfig, last: CheckpointRecord | None) -> None:
    if last is not None and last.step > config.training.steps:
        raise UserError(
            f"training.steps: {config.training.steps} steps, but {last.step} are made already",
            "Expected at least as many as the newest checkpoint has",
            "Raise training.steps in the run's config.json, or start a new run.",
        )


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
