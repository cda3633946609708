"""Checkpoints: what of a run cannot be recomputed, written so that a kill at any moment is safe.

Learning rate, data order and every random draw are functions of (seed, step); a checkpoint holds
the trained weights and their running average, the optimizer's progress, the loss scale, and how far
the run and its events are.
"""

import errno
import json
import os
import shutil
from collections.abc import Callable, Collection, Mapping
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
from onetrainer.run.run_folder import STATE_FILE, RunFolder, cannot_write, sync_folder, write_atomic

WEIGHTS_FILE = "weights.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"
OPTIMIZER_VALUES_FILE = "optimizer.json"
EMA_FILE = "ema.safetensors"
PART_SUFFIX = ".part"


@dataclass
class TrainState:
    """How far a run is: the one thing in it that changes.

    step: optimizer steps made.
    """

    step: int = 0


@dataclass(frozen=True)
class CheckpointRecord:
    """What state.json tells beside the tensors.

    events_size: how many bytes of events.jsonl belong to the run up to here.
    engine: the loss scale and its history, where there is one. data_digest: of the encoded
    pictures and captions in their order. held_out: of the held-out pictures, with the step since
    which they are held out; "" if none were.
    """

    step: int
    config_digest: str
    events_size: int
    versions: dict[str, str] = field(default_factory=dict)
    engine: dict[str, Any] = field(default_factory=dict)
    data_digest: str = ""
    validation: str = ""

    def __post_init__(self) -> None:
        if type(self.step) is not int or type(self.events_size) is not int:
            raise TypeError("step and events_size are whole numbers")


def newest_record(folder: RunFolder) -> CheckpointRecord | None:
    """The newest complete checkpoint of a run; None if there is none.

    Raises UserError if it was written by another version of this program.
    """
    complete = folder.complete_checkpoints()
    return read_record(folder, complete[-1][0]) if complete else None


def read_record(folder: RunFolder, step: int) -> CheckpointRecord:
    """That of a step's checkpoint, which is complete. Raises UserError as `newest_record`."""
    path = folder.checkpoint(step) / STATE_FILE
    try:
        return CheckpointRecord(**json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise UserError(
            f"{path}: cannot be read as a checkpoint's state",
            "Expected a file of this version of the program",
            f"Delete {path.parent.name} to continue from the checkpoint before it.",
        ) from error


def _no_steps() -> Collection[int]:
    return ()


@dataclass(frozen=True)
class Checkpoints:
    """Saves and restores everything that a run's checkpoint holds.

    ema: None if the run averages no weights. keep: so many of the newest are kept. best_steps:
    the steps whose checkpoints are kept besides them.
    """

    folder: RunFolder
    method: Method
    optimizer: OptimizerProgress
    ema: Ema | None
    engine: Engine
    keep: int
    best_steps: Callable[[], Collection[int]] = _no_steps

    def save(self, record: CheckpointRecord) -> Path:
        """Writes the checkpoint of a step, complete or not at all, then deletes the oldest.

        Raises UserError where the disk is full or cannot be written to.
        """
        final = self.folder.checkpoint(record.step)
        part = final.with_name(final.name + PART_SUFFIX)
        try:
            _remove(part)
            part.mkdir(parents=True)
            self._write_tensors(part)
            # Last, so that a folder with a state file is a whole checkpoint.
            write_atomic(part / STATE_FILE, json.dumps(asdict(record), indent=2).encode())
            sync_folder(part)
            _remove(final)
            part.rename(final)
            sync_folder(final.parent)
        except OSError as error:
            with suppress(OSError):
                _remove(part)
            raise cannot_write(final, error) from error
        self._prune()
        return final

    def restore(self, record: CheckpointRecord) -> list[str]:
        """Takes a checkpoint up; returns what there is to tell about it.

        To be called before gradient hooks are registered and before the first step; only where
        nothing is trained after it, to export what it holds, may it be called later.
        Raises UserError if its files are damaged or do not fit the config.
        """
        path = self.folder.checkpoint(record.step)
        try:
            self.method.load_state_dict(load_file(path / WEIGHTS_FILE))
            values = json.loads((path / OPTIMIZER_VALUES_FILE).read_text())
            told = self.optimizer.load(load_file(path / OPTIMIZER_FILE), values)
            told += self._restore_average(path / EMA_FILE)
            self.engine.load_state_dict(record.engine)
            return told
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path}: this checkpoint cannot be taken up ({str(error)[:200]})",
                "Expected an undamaged checkpoint, made with this run's method settings",
                "Restore config.json if you changed it, or delete this checkpoint's folder to"
                " continue from the one before it.",
            ) from error

    def _restore_average(self, path: Path) -> list[str]:
        if self.ema is None:
            return []
        if path.is_file():
            self.ema.load_state_dict(load_file(path))
            return []
        self.ema.restart()
        return [
            "the checkpoint has no average of the weights (ema): it begins with them as they are"
        ]

    def clean(self) -> None:
        """Deletes what an interrupted save or deletion has left behind."""
        whole = {path for _, path in self.folder.complete_checkpoints()}
        for path in self.folder.checkpoints.glob("step-*"):
            if path not in whole:
                _remove(path)

    def _write_tensors(self, folder: Path) -> None:
        weights = {name: value.contiguous() for name, value in self.method.state_dict().items()}
        _refuse_broken(weights)
        statistics, values = self.optimizer.save()
        write_atomic(folder / OPTIMIZER_VALUES_FILE, json.dumps(values).encode())
        _save_tensors(weights, folder / WEIGHTS_FILE)
        _save_tensors(statistics, folder / OPTIMIZER_FILE)
        if self.ema is not None:
            _save_tensors(self.ema.state_dict(), folder / EMA_FILE)

    def _prune(self) -> None:
        best = self.best_steps()
        for step, path in self.folder.complete_checkpoints()[: -self.keep]:
            if step not in best:
                _remove(path)


def _save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Writes tensors and waits until they are on the disk. Raises OSError."""
    try:
        save_file(tensors, path)
    except SafetensorError as error:
        # Its one way to say that the disk is full.
        raise OSError(errno.ENOSPC, str(error)) from error
    with path.open("r+b") as handle:  # Windows flushes only what may be written
        os.fsync(handle.fileno())


def _refuse_broken(weights: Mapping[str, Tensor]) -> None:
    sound = [torch.isfinite(value).all() for value in weights.values()]
    # Read together: each read of its own would wait for the device.
    for name, is_sound in zip(weights, read_flags(sound), strict=True):
        if not is_sound:
            raise UserError(
                f"the trained weights are no longer numbers ({name})",
                "Nothing was saved over your last good checkpoint",
                "Lower the learning rate (optimizer.lr), or train in bf16 or fp32.",
            )


def _remove(path: Path) -> None:
    """Deletes a checkpoint folder; its state file first, so that half of it is never one."""
    if path.exists():
        (path / STATE_FILE).unlink(missing_ok=True)
        shutil.rmtree(path)
