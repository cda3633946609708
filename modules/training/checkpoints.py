"""Checkpoints: the state of a run, written so that a kill at any moment is safe.

Learning rate, data order and random draws are functions of (seed, step). A checkpoint holds the
rest: trained weights, EMA, optimizer state, loss scale, step, and size of the event log.
"""

import errno
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from modules.interfaces import Method
from modules.memory.to_device import read_flags
from modules.optim.ema import Ema
from modules.optim.optimizer_state import OptimizerProgress
from modules.training.engine import Engine
from onetrainer.errors import UserError
from onetrainer.files.atomic import sync_folder, write_atomic
from onetrainer.run.run_folder import STATE_FILE, RunFolder, cannot_write

WEIGHTS_FILE = "weights.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"
OPTIMIZER_VALUES_FILE = "optimizer.json"
EMA_FILE = "ema.safetensors"
PART_SUFFIX = ".part"
# Keys of state.json that were renamed with config version 6.
_FORMER_KEYS = {"held_out": "validation"}


@dataclass
class TrainState:
    """Progress of a run, the only mutable state of it.

    Attributes:
        step: Optimizer steps made.
    """

    step: int = 0


@dataclass(frozen=True)
class CheckpointRecord:
    """Contents of state.json.

    Attributes:
        events_size: Bytes of events.jsonl that belong to the run up to here.
        engine: The loss scale and its history; empty without one.
        data_digest: Of the encoded images and captions in their order.
        data_identity: Of the images and captions, independent of the encoders; "" of checkpoints
            of earlier versions.
        validation: Digest of the validation images, with the step since which they are held out; ""
            without validation.
    """

    step: int
    config_digest: str
    events_size: int
    versions: dict[str, str] = field(default_factory=dict)
    engine: dict[str, Any] = field(default_factory=dict)
    data_digest: str = ""
    validation: str = ""
    data_identity: str = ""

    def __post_init__(self) -> None:
        if type(self.step) is not int or type(self.events_size) is not int:
            raise TypeError("step and events_size are whole numbers")


def newest_record(folder: RunFolder) -> CheckpointRecord | None:
    """Return the newest complete checkpoint of a run; None if it has none.

    Raises:
        UserError: If it was written by another version of this program.
    """
    complete = folder.complete_checkpoints()
    return read_record(folder, complete[-1][0]) if complete else None


def read_record(folder: RunFolder, step: int) -> CheckpointRecord:
    """Return the record of a step's complete checkpoint.

    Raises:
        UserError: As `newest_record`.
    """
    path = folder.checkpoint(step) / STATE_FILE
    try:
        document = json.loads(path.read_text())
        return CheckpointRecord(**{_FORMER_KEYS.get(key, key): document[key] for key in document})
    except (ValueError, TypeError) as error:
        raise UserError(
            f"{path}: cannot be read as a checkpoint's state",
            "Expected a file of this version of the program",
            f"Delete {path.parent.name} to continue from the checkpoint before it.",
        ) from error


@dataclass(frozen=True)
class Checkpoints:
    """Saves and restores checkpoints.

    Attributes:
        ema: None if the run keeps no EMA.
        keep: Number of newest checkpoints to keep.
    """

    folder: RunFolder
    method: Method
    optimizer: OptimizerProgress
    ema: Ema | None
    engine: Engine
    keep: int

    def save(self, record: CheckpointRecord, *, best_step: int | None = None) -> Path:
        """Write a checkpoint, complete or not at all, then delete the oldest ones.

        best_step: Its checkpoint is kept besides the newest ones.

        Raises:
            UserError: If the disk is full or cannot be written to.
        """
        final = self.folder.checkpoint(record.step)
        part = final.with_name(final.name + PART_SUFFIX)
        try:
            _remove(part)
            part.mkdir(parents=True)
            self._write_tensors(part)
            # Last, so that a folder with a state file is a complete checkpoint.
            write_atomic(part / STATE_FILE, json.dumps(asdict(record), indent=2).encode())
            sync_folder(part)
            _remove(final)
            part.rename(final)
            sync_folder(final.parent)
        except OSError as error:
            with suppress(OSError):
                _remove(part)
            raise cannot_write(final, error) from error
        for step, path in self.folder.complete_checkpoints()[: -self.keep]:
            if step != best_step:
                _remove(path)
        return final

    def restore(self, record: CheckpointRecord) -> list[str]:
        """Load a checkpoint; return warnings.

        Call before gradient hooks are registered and before the first step; later only to export,
        if no training follows.

        Raises:
            UserError: If its files are damaged or do not fit the config.
        """
        path = self.folder.checkpoint(record.step)
        try:
            self.method.load_state_dict(load_file(path / WEIGHTS_FILE))
            values = json.loads((path / OPTIMIZER_VALUES_FILE).read_text())
            warnings = self.optimizer.load(load_file(path / OPTIMIZER_FILE), values)
            warnings += self._restore_ema(path / EMA_FILE)
            self.engine.load_state_dict(record.engine)
            return warnings
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path}: this checkpoint cannot be loaded ({str(error)[:200]})",
                "Expected an undamaged checkpoint, made with this run's method settings",
                "Restore config.json if you changed it, or delete this checkpoint's folder to"
                " continue from the one before it.",
            ) from error

    def _restore_ema(self, path: Path) -> list[str]:
        if self.ema is None:
            return []
        if path.is_file():
            self.ema.load_state_dict(load_file(path))
            return []
        self.ema.restart()
        return [
            "the checkpoint has no EMA of the weights (ema.use): it starts from the current weights"
        ]

    def clean(self) -> None:
        """Delete what an interrupted save or deletion left behind."""
        complete = {path for _, path in self.folder.complete_checkpoints()}
        for path in self.folder.checkpoints.glob("step-*"):
            if path not in complete:
                _remove(path)

    def _write_tensors(self, folder: Path) -> None:
        weights = {name: value.contiguous() for name, value in self.method.state_dict().items()}
        _require_finite(weights)
        state, values = self.optimizer.save()
        write_atomic(folder / OPTIMIZER_VALUES_FILE, json.dumps(values).encode())
        _save_tensors(weights, folder / WEIGHTS_FILE)
        _save_tensors(state, folder / OPTIMIZER_FILE)
        if self.ema is not None:
            _save_tensors(self.ema.state_dict(), folder / EMA_FILE)


def _save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write tensors and flush them to the disk; raise OSError on failure."""
    try:
        save_file(tensors, path)
    except SafetensorError as error:
        # safetensors reports a full disk this way only.
        raise OSError(errno.ENOSPC, str(error)) from error
    with path.open("r+b") as handle:  # Windows flushes only files opened for writing
        os.fsync(handle.fileno())


def _require_finite(weights: Mapping[str, Tensor]) -> None:
    finite = [torch.isfinite(value).all() for value in weights.values()]
    # One read for all: each read waits for the device.
    for name, is_finite in zip(weights, read_flags(finite), strict=True):
        if not is_finite:
            raise UserError(
                f"training has diverged: the trained weights are not finite numbers ({name})",
                "Your last good checkpoint was not overwritten",
                "Lower the learning rate (optimizer.lr), or train in bf16 or fp32.",
            )


def _remove(path: Path) -> None:
    """Delete a checkpoint folder, its state file first: half of it never counts as a checkpoint."""
    if path.exists():
        (path / STATE_FILE).unlink(missing_ok=True)
        shutil.rmtree(path)
