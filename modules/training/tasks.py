"""Tasks between steps that save checkpoints and files."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from modules.interfaces import ExportOptions, Method
from modules.memory.precision import compute_dtype
from modules.memory.residency import Enter
from modules.optim.exported_weights import ExportedWeights
from modules.training.checkpoint_record import CheckpointRecord, read_record
from modules.training.checkpoint_writer import CheckpointWriter
from modules.training.checkpoints import GATHER
from modules.training.engine import Engine
from modules.training.failures import OUTPUT, Failures
from modules.training.inbox import Inbox
from onetrainer.config.base.amount import known
from onetrainer.config.run.output import Output
from onetrainer.files.atomic import write_atomic
from onetrainer.files.inside import delete_recorded, stamp_of
from onetrainer.files.own_json import read_own
from onetrainer.run.checkpoint_files import verify
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Phase
from onetrainer.run.run_folder import RunFolder, cannot_write
from onetrainer.run.starred import are_stars_known, starred_steps
from onetrainer.schedules.amounts import Plan, is_due

if TYPE_CHECKING:
    from modules.sharding.sharding import Sharding

_EXPORTS = TypeAdapter(dict[int, dict[str, str] | list[str]])
EXPORT, RESTORE = "export", "restore"
"""The orders to take part in writing output files, and to load a checkpoint for them."""


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
    data: dict[str, str]
    validation_files: list[str]
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
            data=self.data,
            validation_files=self.validation_files,
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
            made = self._recorded() | {step: {path.name: stamp_of(path) for path in files}}
            past = sorted(number for number in made if number <= step)
            is_deleting = self.save.section.keep_exports and are_stars_known(self.save.folder)
            keep = self.save.section.keep_exports if is_deleting else len(past)
            for old in {*past[:-keep]} - starred_steps(self.save.folder) - {self.save.best_step()}:
                for name, stamp in made.pop(old).items():
                    delete_recorded(self.save.folder.output, name, stamp)
            write_atomic(self.save.folder.exports, json.dumps(made).encode())

    def _recorded(self) -> dict[int, dict[str, str]]:
        """Return the files that this task wrote and did not delete; nothing else is deleted.

        Each with what tells it from another one; "" in records of earlier versions.
        """
        kind, lost = dict[int, dict[str, str] | list[str]], "the files that it names are kept"
        found = read_own(self.save.folder.exports, kind, {}, lost=lost, is_of_run=True)
        return {
            step: files if isinstance(files, dict) else dict.fromkeys(files, "")
            for step, files in found.items()
        }


def export_options(section: Output, metadata: Mapping[str, str]) -> ExportOptions:
    """Return how a run's settings ask for its files to be written."""
    return ExportOptions(
        dtype=compute_dtype(section.precision),
        metadata=metadata,
        naming=section.lora_naming,
        fold_alpha=section.fold_alpha,
        model_format=section.model_format,
    )
