"""Tasks between steps: generating samples, saving checkpoints and files."""

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from torch import Tensor

from modules.interfaces import ExportOptions, Family, Method
from modules.memory.precision import compute_dtype
from modules.memory.residency import Enter
from modules.optim.exported_weights import ExportedWeights
from modules.sampling.image_files import Settings, save_image, thumbnail_of
from modules.sampling.sampler import SamplingContexts, sample
from modules.training.checkpoint_record import CheckpointRecord, read_record
from modules.training.checkpoint_writer import CheckpointWriter
from modules.training.checkpoints import GATHER
from modules.training.engine import Engine
from modules.training.failures import OUTPUT, Failures
from modules.training.inbox import Inbox
from modules.world.world import World, alone
from onetrainer.captions.sample_prompts import Shot
from onetrainer.config.base.amount import known
from onetrainer.config.run.output import Output
from onetrainer.config.run.sampling import Sampling
from onetrainer.files.atomic import write_atomic
from onetrainer.run.checkpoint_files import verify
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Phase, Sample
from onetrainer.run.run_folder import RunFolder, cannot_write
from onetrainer.run.starred import starred_steps
from onetrainer.schedules.amounts import Plan, is_due

if TYPE_CHECKING:
    from modules.sharding.sharding import Sharding

_EXPORTS = TypeAdapter(dict[int, list[str]])
_SECONDS_PER_PHASE = 1.0
SAMPLE = "sample"
"""The order to generate samples together."""
EXPORT, RESTORE = "export", "restore"
"""The orders to take part in writing output files, and to load a checkpoint for them."""
LAST_WEIGHTS = " (without EMA)"
"""Appended to the prompt of a sample from the weights of the last step."""


class TaskStopped(Exception):
    """The run is to end; a resumed run repeats what was not finished."""


class TaskProgress:
    """Reports the progress of a task every second, and ends it if the run is to end."""

    def __init__(self, inbox: Inbox, events: EventWriter, *, step: int, steps: int) -> None:
        self._inbox, self._events = inbox, events
        self._is_last_step = step >= steps
        self._last_report = -math.inf

    def report(self, phase: Phase, *, is_first: bool = False) -> None:
        """Report before an image or a part of it; is_first: at any time.

        Raises:
            TaskStopped: If the run is to end before its last step.
        """
        if self._inbox.is_leaving() and not self._is_last_step:
            raise TaskStopped
        if is_first or monotonic() - self._last_report > _SECONDS_PER_PHASE:
            self._last_report = monotonic()
            self._events.write(phase)


@dataclass(frozen=True)
class SampleTask:
    """Generates samples: every N steps, at the end, and on command.

    Attributes:
        plan: How far the run is after a step, for intervals in epochs or images.
        samples_last_weights: Whether each sample is repeated with the last step's weights, without
            EMA.
        model: Name of the base model in the images' metadata.
        clip_skip: 0 for the family's own.
        phase: Places the model's components for a phase.
        world: Shares the samples out.
    """

    section: Sampling
    shots: tuple[Shot, ...]
    steps: int
    plan: Plan
    family: Family
    method: Method
    engine: Engine
    exported: ExportedWeights
    samples_last_weights: bool
    folder: RunFolder
    events: EventWriter
    inbox: Inbox
    config_digest: str
    model: str
    clip_skip: int
    phase: Enter
    world: World = field(default_factory=alone)

    def is_due(self, step: int) -> bool:
        return self.inbox.has("sample") or self.is_planned(step)

    def is_planned(self, step: int) -> bool:
        """Return whether the config asks for samples after a step."""
        if step == 0:
            return self.section.at_start
        periodic = is_due(self.section.every, step, self.plan)
        return periodic or (self.section.at_end and step == self.steps)

    def needs_end_samples(self, step: int) -> bool:
        """Return whether a run that ends early at this step lacks its samples at the end."""
        return self.section.at_end and step < self.steps and not self.is_planned(step)

    def run(self, step: int) -> None:
        """Generate every sample."""
        self.inbox.take("sample")
        self.sample_prompts(step, without=set())

    def sample_prompts(self, step: int, *, without: set[int]) -> None:
        """Generate samples of the prompts, in evaluation mode.

        Samples of the last step's weights are numbered after those of the EMA. Ends early if the
        run is to end before its last step; a resumed run generates the missing ones.

        without: Indices of samples to leave out.
        """
        total = len(self.shots) * (2 if self.samples_last_weights else 1)
        indices = [index for index in range(total) if index not in without]
        with self.world.shared(SAMPLE, step, indices):
            self._sample(step, indices, self._save)

    def take_part(self, step: int, indices: Sequence[int]) -> None:
        """Generate this process's part of the samples that rank 0 asks for and saves."""
        self._sample(step, indices, lambda *_: None)

    def _sample(
        self, step: int, indices: Sequence[int], save: Callable[[int, int, Tensor], None]
    ) -> None:
        weight_forms = [self.exported.for_samples, self.exported.without_ema]
        self.method.train(False)
        try:
            for number, weights in enumerate(weight_forms):
                own = [index for index in indices if index // len(self.shots) == number]
                compute = partial(self._generate, step, own)
                with (
                    weights() if own else nullcontext(),
                    closing(self.world.map(compute, len(own), lambda _: None)) as generated,
                ):
                    for index, pixels in zip(own, generated, strict=True):
                        save(step, index, pixels)
        except TaskStopped:
            return
        finally:
            self.method.train(True)

    def thumbnail(self, step: int) -> bytes | None:
        """Return the first prompt's planned sample of a step as a small JPEG; None without one.

        Samples on command do not count: output files depend on config, data and seed alone.
        """
        if not self.shots or not self.is_planned(step):
            return None
        path = thumbnail_of(self._path(step, 0))
        return path.read_bytes() if path.is_file() else None

    def _path(self, step: int, index: int) -> Path:
        return self.folder.samples / f"step-{step:06d}-{index:02d}.png"

    def _generate(self, step: int, indices: Sequence[int], place: int) -> Tensor:
        """Return the pixels of one of some samples, on the CPU."""
        index = indices[place]
        shot = self.shots[index % len(self.shots)]
        total = len(self.shots) * (2 if self.samples_last_weights else 1)
        progress = TaskProgress(self.inbox, self.events, step=step, steps=self.steps)

        def on_step(number: int) -> None:
            detail = f"step {number + 1} of {shot.steps}"
            progress.report(Phase("sampling", index, total, detail), is_first=number == 0)

        with self.method.at_strength(shot.strength):
            pixels = sample(
                self.family,
                [shot.prompt],
                steps=shot.steps,
                guidance=shot.guidance,
                sampler=shot.sampler,
                guidance_rescale=self.section.guidance_rescale,
                on_step=on_step,
                contexts=SamplingContexts(self.engine.autocast, self.phase),
            )
        return pixels.cpu()

    def _save(self, step: int, index: int, pixels: Tensor) -> None:
        """Write an image, then its event."""
        shot = self.shots[index % len(self.shots)]
        path = self._path(step, index)
        settings = Settings(
            shot.prompt,
            steps=shot.steps,
            guidance=shot.guidance,
            step=step,
            digest=self.config_digest,
            sampler=shot.sampler,
            guidance_rescale=self.section.guidance_rescale,
            model=self.model,
            clip_skip=self.clip_skip,
            prompt_weights=self.section.prompt_weights,
            strength=shot.strength,
        )
        try:
            save_image(pixels, path, settings)
        except OSError as error:
            raise cannot_write(path, error) from error
        relative = path.relative_to(self.folder.path).as_posix()
        title = shot.title + (LAST_WEIGHTS if index >= len(self.shots) else "")
        self.events.write(Sample(step, index, relative, title, shot.prompt.seed))


@dataclass(frozen=True)
class SaveTask:
    """Writes checkpoints and output files.

    Attributes:
        plan: As that of `SampleTask`.
        config: The checkpoint's record of the run's config.
        validation: The same of the validation images.
        metadata: Returns the metadata of a file written after a step, given its thumbnail.
        thumbnail: Returns a small JPEG of a sample after a step; None without one.
        best_step: Returns the step whose checkpoint is kept however old it gets; None for none.
        phase: Places the model's components for a phase.
        sharding: None where this process has whole weights; else the others take part.
    """

    section: Output
    plan: Plan
    folder: RunFolder
    method: Method
    engine: Engine
    exported: ExportedWeights
    writer: CheckpointWriter
    events: EventWriter
    inbox: Inbox
    failures: Failures
    config: dict[str, Any]
    config_digest: str
    data_digest: str
    data_identity: str
    validation: str
    versions: dict[str, str]
    metadata: Callable[[int, bytes | None], dict[str, str]]
    thumbnail: Callable[[int], bytes | None]
    best_step: Callable[[], int | None]
    phase: Enter
    sharding: "Sharding | None" = None

    def is_due(self, step: int) -> bool:
        periodic = is_due(self.section.save_every, step, self.plan)
        # A checkpoint that could not be written ends the run as soon as that is known.
        return periodic or self.inbox.has("save") or self.writer.has_failed

    def has_checkpoint(self, step: int) -> bool:
        """Return whether a step's checkpoint is complete or being written."""
        complete = [number for number, _ in self.folder.complete_checkpoints()]
        return step in (self.writer.newest_step, *complete)

    def run(self, step: int) -> None:
        """Save a checkpoint; on command, also the output files as trained so far."""
        self.checkpoint(step)
        if self.inbox.take("save"):
            with self.failures.tolerated(OUTPUT):
                self.export(step, is_final=False)

    def checkpoint(self, step: int) -> None:
        """Save a checkpoint, to which all events so far belong."""
        self.writer.wait()  # the event of the one before belongs to this one
        size = self.events.size
        self.events.write(Phase("saving"))
        record = CheckpointRecord(
            step=step,
            config_digest=self.config_digest,
            events_size=size,
            versions=self.versions,
            engine=self.engine.state_dict(),
            data_digest=self.data_digest,
            data_identity=self.data_identity,
            validation=self.validation,
            config=self.config,
            metadata=self.metadata(step, None),
        )
        with self.phase("saving"):
            self.writer.save(record, best_step=self.best_step())

    def restore_for_export(self, step: int) -> None:
        """Load an earlier checkpoint in order to export it; no training may follow.

        Raises:
            DamagedCheckpoint: Before anything is loaded.
        """
        verify(self.folder.checkpoint(step), step)
        self._call(RESTORE, step)
        self._restore(step)

    def orders(self) -> dict[str, Callable[..., object]]:
        """Return what the other processes do where each has a part of the weights."""
        gather = self.writer.checkpoints.gather
        return {GATHER: gather, EXPORT: self._take_part_in_export, RESTORE: self._restore}

    def _take_part_in_export(self) -> None:
        with self.exported.for_files():
            self.method.trained_weights()

    def _restore(self, step: int) -> None:
        restore = partial(self.writer.checkpoints.restore, read_record(self.folder, step))
        restore() if self.sharding is None else self.sharding.world.agree(restore)

    def _call(self, order: str, *arguments: object) -> None:
        if self.sharding is not None:
            self.sharding.world.call(order, *arguments)

    def export(self, step: int, *, is_final: bool, suffix: str = "") -> list[Path]:
        """Write the output files of a step.

        is_final: Whether they get the final name rather than one with the step.
        suffix: Appended to the final name.
        """
        name = f"{self.section.name}{suffix if is_final else f'-{step:06d}'}"
        path = self.folder.output / name
        metadata = self.metadata(step, self.thumbnail(step) if is_final else None)
        try:
            self._call(EXPORT)
            with self.phase("saving"), self.exported.for_files():
                return self.method.export(path, export_options(self.section, metadata))
        except OSError as error:
            raise cannot_write(path, error) from error


@dataclass(frozen=True)
class ExportTask:
    """Writes the output files as trained so far every N steps, and deletes the oldest of these.

    Attributes:
        steps: Number of steps of the run, after the last of which the finished file is written.
    """

    save: SaveTask
    steps: int

    def is_due(self, step: int) -> bool:
        section = self.save.section
        is_planned = is_due(section.export_every, step, self.save.plan)
        return is_planned and known(section.export_from) <= step < self.steps

    def run(self, step: int) -> None:
        """Write the files of a step, then delete those beyond the number to keep."""
        self.save.events.write(Phase("saving"))
        with self.save.failures.tolerated(OUTPUT):
            files = self.save.export(step, is_final=False)
            made = self._recorded() | {step: [path.name for path in files]}
            past = sorted(number for number in made if number <= step)
            keep = self.save.section.keep_exports or len(past)
            for old in {*past[:-keep]} - starred_steps(self.save.folder) - {self.save.best_step()}:
                for name in made.pop(old):
                    self._delete(name)
            write_atomic(self.save.folder.exports, _EXPORTS.dump_json(made))

    def _recorded(self) -> dict[int, list[str]]:
        """Return the files that this task wrote and did not delete; nothing else is deleted."""
        try:
            return _EXPORTS.validate_json(self.save.folder.exports.read_bytes())
        except (FileNotFoundError, ValueError):
            return {}

    def _delete(self, name: str) -> None:
        path = self.save.folder.output / Path(name).name  # of no other folder, whatever is recorded
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def export_options(section: Output, metadata: Mapping[str, str]) -> ExportOptions:
    """Return how a run's settings ask for its files to be written."""
    return ExportOptions(
        dtype=compute_dtype(section.precision),
        metadata=metadata,
        naming=section.lora_naming,
        fold_alpha=section.fold_alpha,
        model_format=section.model_format,
    )
