"""The training job: from a run folder to output files."""

import gc
import hashlib
import os
import platform
import traceback
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import replace
from importlib import metadata as packages
from pathlib import Path
from typing import Literal

from pydantic_core import to_json

from modules.assembly.attention import with_measured_attention
from modules.assembly.data_changes import data_warnings
from modules.assembly.inputs import Inputs, prepare_inputs
from modules.assembly.lengths import (
    LengthsChanged,
    confirm_lengths,
    decide_lengths,
    measure_speed,
    report_lengths,
    with_decided_lengths,
)
from modules.assembly.run_context import Run
from modules.assembly.sharding import is_sharded
from modules.assembly.trainer import Assembled, assemble
from modules.broken_steps.response import NothingTrained, WentBack
from modules.data.cache import CachingStopped
from modules.data.encoded_items import EntryLost
from modules.forecast.forecast import Planner, target_of
from modules.jobs.base_model import (
    BASE_MODEL,
    local_model,
    recorded_revision,
    use_hardware,
)
from modules.jobs.loading import START, Start, load
from modules.memory.determinism import determinism
from modules.memory.precision import (
    choose_device,
    device_notes,
    free_cached_memory,
    prefer_attention,
)
from modules.memory.residency import Residency
from modules.training.checkpoint_record import CheckpointRecord, find_restore_point
from modules.training.disk_space import FolderGone, require_room
from modules.training.evaluate_task import export_best
from modules.training.failures import SAMPLING, TENSORBOARD, Failures
from modules.training.inbox import Inbox
from modules.training.sample_task import SampleTask
from modules.training.tensorboard import open_board
from modules.world.link import ProcessLost
from modules.world.world import World, alone
from onetrainer.checks.preflight import require_startable
from onetrainer.config.migrate import migrate
from onetrainer.config.train import TrainConfig
from onetrainer.errors import EXIT_DONE, EXIT_STOPPED, StateLost, UserError
from onetrainer.json_file import read_json
from onetrainer.messages.memory import checkpointing_label
from onetrainer.model_files.hub import is_hub_name
from onetrainer.presets.presets import resolve
from onetrainer.rules.changes import changes_since
from onetrainer.rules.processes import step_problems
from onetrainer.run.commands import Leaving
from onetrainer.run.decided_lengths import decided_lengths
from onetrainer.run.event_log import EventWriter, read_all, rewind
from onetrainer.run.events import Checkpoint, Finished, Phase, Sample, Started, Stopped, Warned
from onetrainer.run.known_folders import remember_run_folder
from onetrainer.run.leftovers import clean
from onetrainer.run.run_folder import RunFolder
from onetrainer.schedules.amounts import lengths

PACKAGES = ("torch", "diffusers", "transformers", "accelerate", "lycoris_lora")


def train(folder: RunFolder, inbox: Inbox | None = None, world: World | None = None) -> int:
    """Train a run folder's config from its newest checkpoint; return the exit code.

    If cache entries are lost during training, the run saves a checkpoint and restarts, which
    encodes them again, with the same results. If a broken step makes it go back, or its length in
    steps turns out, it restarts too.

    inbox: The worker's; None for one of its own. world: The processes of the run; None for one.
    """
    note, last_lost_step = "", -1
    world = world or alone()
    world.join()
    remember_run_folder(folder.path.parent)
    with ExitStack() as stack:
        inbox = inbox or stack.enter_context(closing(Inbox(folder.commands)))
        while True:
            try:
                return _start(folder, inbox, world, note)
            except EntryLost as lost:
                step = max((step for step, _ in folder.complete_checkpoints()), default=0)
                if step == last_lost_step:
                    raise  # it was encoded for this start, so it would be lost again
                note, last_lost_step = f"{lost.what}; it was encoded again", step
            except (WentBack, LengthsChanged):
                note = ""  # the record of retries, or of lengths, is reported
            # Outside the except clause, where the error keeps everything on the device alive.
            gc.collect()
            free_cached_memory()


def _start(folder: RunFolder, inbox: Inbox, world: World, note: str) -> int:
    """Start the run once.

    note: Why the start before failed. Raises EntryLost.
    """
    document = migrate(read_json(folder.config), source=str(folder.config), goes_on=True)
    written = resolve(document, source=str(folder.config))
    digest = hashlib.sha256(written.model_dump_json().encode()).hexdigest()  # to detect changes
    config = with_decided_lengths(written, folder)
    use_hardware(config.hardware)
    if not world.is_alone:  # as many as another program may have started
        require_startable(list(step_problems(config, world.size)), source=str(folder.config))
    clean(folder)
    # Reading gigabytes takes minutes on a hard disk.
    restore_point = find_restore_point(folder, verifying=inbox.while_loading)
    last = restore_point.record
    changes = _changes(folder, written, last)
    if last is not None and not lengths(config):
        _require_steps_left(config, last, folder)
    # Steps after the checkpoint are repeated, so their events are removed.
    rewind(folder.events, last.events_size if last else 0)
    past_events = read_all(folder.events)
    versions = {"python": platform.python_version()}
    versions |= {name: packages.version(name) for name in PACKAGES}
    # Of the base model that the run began with, if the model is the same.
    base = last.versions.get(BASE_MODEL, "") if last else ""
    if base.startswith(f"{config.model.path}@"):
        versions[BASE_MODEL] = base
    with ExitStack() as stack:
        failures = Failures(lambda text: events.write(Warned(text)))
        also = None
        if config.output.tensorboard:
            board = open_board(folder.path, first_step=last.step if last else 0)
            stack.callback(board.close)
            also = failures.tolerating(TENSORBOARD, board.take)
        events = stack.enter_context(closing(EventWriter(folder.events, also=also)))
        device = choose_device(*world.place.device_of(config.hardware.device))
        stack.enter_context(determinism(config.hardware.deterministic, device))
        config = with_measured_attention(config, device)
        stack.enter_context(prefer_attention(config.hardware.attention))
        run = Run(
            folder,
            config,
            written.model_dump(mode="json"),
            digest,
            versions,
            events,
            inbox,
            device,
            last,
            past_events,
            failures,
            world=world,
        )
        _report_start(run)
        if not lengths(config):
            report_lengths(run, written)
        for text in (*restore_point.warnings, *changes, *([note] if note else [])):
            run.warn(text)
        return _prepare_and_train(run)


def _changes(folder: RunFolder, written: TrainConfig, last: CheckpointRecord | None) -> list[str]:
    """Return what has changed of the settings since the checkpoint. Raises UserError."""
    if last is None:
        return []
    decided = decided_lengths(folder)
    return changes_since(last.config, written, step=last.step, decided=decided)


def _require_steps_left(config: TrainConfig, last: CheckpointRecord, folder: RunFolder) -> None:
    """Raise UserError if a run is past its last step, or its disk has no room for more."""
    changes_since({}, config, step=last.step)
    if last.step < config.training.total_steps:
        require_room(folder, last.step)


def _with_lengths(run: Run) -> Run:
    """Return the run with its lengths decided, if they were not. Raises CachingStopped."""
    if not lengths(run.config):
        return run
    run = decide_lengths(run)
    if run.last is not None and run.undecided is None:
        _require_steps_left(run.config, run.last, run.folder)
    return run


def _prepare_and_train(run: Run) -> int:
    try:
        run = _with_lengths(run)
    except CachingStopped:
        return _report_stop(run)
    for note in device_notes(run.config.hardware, run.device):
        run.warn(note)
    with run.inbox.while_loading(run.report_stop):
        run, path = _locate_model(_resolve_checkpointing(run))
        run.world.call(START, Start.of(run))
        loaded = load(run, path)
    residency = loaded.residency
    try:
        with residency.phase("caching"):
            inputs = prepare_inputs(run, loaded.family, loaded.digests)
    except CachingStopped:
        return _report_stop(run)
    with closing(inputs), residency.phase("training"):
        if inputs.images is not None and inputs.prompts is None:
            confirm_lengths(run, inputs.images.batches)
        with run.inbox.while_loading(run.report_stop):
            assembled = assemble(run, loaded.attached, inputs, loaded.rewards, residency)
        with closing(assembled):
            if run.undecided is not None:
                measure_speed(run, assembled)
                return _report_stop(run)
            try:
                return _train_and_finish(run, assembled, inputs, residency)
            except Exception as error:
                traceback.clear_frames(error.__traceback__)  # frees what the failed step computed
                _save_last_step(run, assembled, error)
                if isinstance(error, EntryLost):
                    inputs.verify()  # so that one restart encodes everything that is damaged
                raise


def _train_and_finish(run: Run, assembled: Assembled, inputs: Inputs, residency: Residency) -> int:
    """Train to the end, generate samples, save; return the exit code."""
    for text in data_warnings(run.last, inputs) if run.last is not None else ():
        run.warn(text)
    # A run that was stopped during these tasks lacks some of their results.
    tasks, trainer = assembled.tasks, assembled.trainer
    for task in tasks.evaluate:
        evaluation = task.evaluation
        tolerated = run.failures.tolerated(evaluation.phase_name)
        with nullcontext() if evaluation.is_required else tolerated:
            task.begin(run.first_step, run.past_events)
    if tasks.sample.is_planned(run.first_step):
        _sample(run, tasks.sample, run.first_step)
    ending, step = trainer.run(), trainer.state.step
    if ending == "done" and tasks.sample.needs_end_samples(step):
        _sample(run, tasks.sample, step)
    code = _finish(run, ending, assembled, inputs)
    residency.finish()
    return code


def _report_stop(run: Run) -> int:
    """Report the end of a run that was stopped before its first step; return the exit code."""
    run.report_stop(run.inbox.leaving or "stop")
    return EXIT_STOPPED


def _resolve_checkpointing(run: Run) -> Run:
    """Return the run with automatic checkpointing resolved for the memory that is free now."""
    if run.config.hardware.gradient_checkpointing != "auto":
        return run
    run.events.write(Phase("loading", detail="counting memory"))
    with Planner(target_of(run.config)) as plans:
        config = plans.resolve_checkpointing(run.config)
    chosen = checkpointing_label(config.hardware.gradient_checkpointing)
    run.events.write(Phase("loading", detail=f"gradient checkpointing: {chosen}"))
    return replace(run, config=config)


def _locate_model(run: Run) -> tuple[Run, Path]:
    """Return the run, and the place of its model on this disk; Hub models are downloaded.

    The run then records the version of a Hub model. A resumed run requests the version it began
    with.
    """
    section = run.config.model
    recorded = recorded_revision(run.versions)
    path = local_model(section.path, run.events.write, offline=section.offline, revision=recorded)
    if not is_hub_name(section.path):
        return run, path
    return replace(run, versions=run.versions | {BASE_MODEL: f"{section.path}@{path.name}"}), path


def _finish(
    run: Run, ending: Literal["done"] | Leaving, assembled: Assembled, inputs: Inputs
) -> int:
    """Save, write the output files, and report the end; return the exit code."""
    run.world.leave()
    step, tasks = assembled.trainer.state.step, assembled.tasks
    tasks.save.writer.wait()
    is_final = ending == "done"
    if ending != "discard":
        _ensure_checkpoint(run, assembled)
    if ending in ("pause", "discard") or step == 0:
        reason = "stop" if ending == "done" else ending
        run.events.write(Stopped(step, reason, because=tasks.disk_space.finding))
        return EXIT_STOPPED
    written, summary = tasks.save.export(step, is_final=is_final), inputs.summary()
    for evaluation in reversed([task.evaluation for task in tasks.evaluate]):
        best = []
        if evaluation is tasks.deciding:
            best = export_best(evaluation, tasks.save, step, is_final=is_final)
        written = best + written if evaluation.prefers_best else written + best
        summary += evaluation.summary(run.first_step, step, best)
    summary += tasks.save.method.reader_notes(tasks.save.section.lora_naming)
    outputs = [path.relative_to(run.folder.path).as_posix() for path in written]
    if ending == "stop":
        run.events.write(Stopped(step, "stop", outputs))
        return EXIT_STOPPED
    run.events.write(Finished(step, outputs, summary))
    return EXIT_DONE


def _ensure_checkpoint(run: Run, assembled: Assembled) -> None:
    """Save a checkpoint of the last step if there is none."""
    step, save = assembled.trainer.state.step, assembled.tasks.save
    save.writer.wait()
    if step > 0 and step not in [number for number, _ in run.folder.complete_checkpoints()]:
        save.checkpoint(step)
        save.writer.wait()


def _save_last_step(run: Run, assembled: Assembled, error: Exception) -> None:
    """Save a checkpoint of the last step before an error ends the run, if that is possible.

    What is known of the steps so far is reported in any case.
    """
    trainer = assembled.trainer
    if (
        is_sharded(run)  # the others may be gone, or wait in the step for this process
        or isinstance(error, StateLost | WentBack | NothingTrained | FolderGone)
        or not trainer.state.is_whole
    ):
        # Before `leave`: if the GPU waits for a process that is lost, the run ends all the same.
        if not isinstance(error, ProcessLost):
            with suppress(Exception):  # the first error is the one to report
                trainer.report.flush()
        run.world.leave()
        return
    run.world.leave()
    try:
        trainer.report.flush()
        _ensure_checkpoint(run, assembled)
    except UserError:
        return  # the first error is the one to report
    except Exception:  # noqa: BLE001 - as above
        traceback.print_exc()


def _report_start(run: Run) -> None:
    last, steps = run.last, run.config.training.steps
    total = steps if isinstance(steps, int) else 0
    if last is not None:
        # The checkpoint's own event came after its events_size, and was removed with the rest.
        path = run.folder.checkpoint(last.step).relative_to(run.folder.path)
        run.events.write(Checkpoint(last.step, path.as_posix()))
    run.events.write(Started(os.getpid(), run.first_step, total, run.versions))
    if last is None:
        return
    # The digest of config.json as the version of the program that wrote it computed it: that of
    # the resolved config is another one where the version added or renamed settings.
    written = hashlib.sha256(to_json(read_json(run.folder.config))).hexdigest()
    if not last.config and last.config_digest not in (run.digest, written):
        run.warn("config.json has changed since the checkpoint; the run continues with the new one")
    if last.versions | {BASE_MODEL: ""} != run.versions | {BASE_MODEL: ""}:
        run.warn("installed packages have changed since the checkpoint; results may differ")


def _sample(run: Run, task: SampleTask, step: int) -> None:
    """Generate those samples of a step that were not before the run was resumed."""
    samples = [event for event in run.past_events if isinstance(event, Sample)]
    existing = {sample.prompt_index for sample in samples if sample.step == step}
    with run.failures.tolerated(SAMPLING):
        task.sample_prompts(step, without=existing)
