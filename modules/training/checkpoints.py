"""Checkpoints: the state of a run, written so that a kill at any moment is safe.

Learning rate, data order and random draws are functions of (seed, step). A checkpoint holds the
rest: trained weights, EMA, optimizer state, loss scale, step, and size of the event log.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from modules.formats.files.files import safetensors_pieces
from modules.interfaces import Method
from modules.memory.to_device import read_flags
from modules.optim.ema import Ema
from modules.optim.optimizer_state import OptimizerProgress
from modules.training.checkpoint_record import CheckpointRecord
from modules.training.engine import Engine
from onetrainer.errors import StateLost, UserError
from onetrainer.files.atomic import sync_folder, write_atomic
from onetrainer.files.own_json import parse_object
from onetrainer.run.checkpoint_files import (
    DamagedCheckpoint,
    set_aside,
    size_of,
    state_content,
    verify,
)
from onetrainer.run.leftovers import PART_SUFFIX, remove_checkpoint
from onetrainer.run.run_folder import STATE_FILE, RunFolder, cannot_write
from onetrainer.run.starred import are_stars_known, starred_steps

if TYPE_CHECKING:
    from modules.sharding.sharding import Sharding

WEIGHTS_FILE = "weights.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"
OPTIMIZER_VALUES_FILE = "optimizer.json"
EMA_FILE = "ema.safetensors"
GATHER = "gather"
"""The order to take part in gathering what a checkpoint holds."""


@dataclass
class TrainState:
    """Progress of a run, the only mutable state of it.

    Attributes:
        step: Optimizer steps made.
        is_whole: Whether the weights, the optimizer and the EMA are all those of this step; not
            while a step updates them.
    """

    step: int = 0
    is_whole: bool = True


@dataclass(frozen=True)
class CheckpointContent:
    """What a checkpoint holds.

    Attributes:
        record: What `state.json` says.
        tensors: By file and name.
        optimizer_values: What the optimizer keeps besides tensors, as JSON.
    """

    record: CheckpointRecord
    tensors: Mapping[str, Mapping[str, Tensor]]
    optimizer_values: bytes

    def byte_count(self) -> int:
        """Return the bytes of the tensors."""
        return sum(tensor.nbytes for file in self.tensors.values() for tensor in file.values())

    def copied(self) -> "CheckpointContent":
        """Return the same with copies in RAM, which further steps do not change.

        Not in pinned memory: torch rounds that up to powers of two, and keeps it.
        """
        copies = {
            file: {name: value.detach().to("cpu", copy=True) for name, value in tensors.items()}
            for file, tensors in self.tensors.items()
        }
        return replace(self, tensors=copies)


@dataclass(frozen=True)
class Checkpoints:
    """Writes and restores checkpoints.

    Attributes:
        ema: None if the run keeps no EMA.
        keep: Number of newest checkpoints to keep.
        sharding: None where this process has whole weights.
    """

    folder: RunFolder
    method: Method
    optimizer: OptimizerProgress
    ema: Ema | None
    engine: Engine
    keep: int
    sharding: "Sharding | None" = None

    def content(self, record: CheckpointRecord) -> CheckpointContent:
        """Return what a checkpoint of this moment holds; the tensors are those that train.

        Raises:
            StateLost: If trained weights are not finite.
        """
        if self.sharding is not None:
            self.sharding.world.call(GATHER)
        tensors, values = self.gather()
        _require_finite(tensors[WEIGHTS_FILE])
        return CheckpointContent(record, tensors, json.dumps(values).encode())

    def gather(self) -> tuple[dict[str, Mapping[str, Tensor]], dict[str, Any]]:
        """Return the tensors by file and name, and what the optimizer keeps besides; in rank 0."""
        weights: Mapping[str, Tensor] = self.method.state_dict()
        averages = {} if self.ema is None else self.ema.state_dict()
        if self.sharding is not None:
            weights = self.sharding.all_joined(weights)
            averages = self.sharding.all_joined(averages)
        state, values = self.optimizer.save()
        contiguous = {name: value.contiguous() for name, value in weights.items()}
        files: dict[str, Mapping[str, Tensor]] = {WEIGHTS_FILE: contiguous, OPTIMIZER_FILE: state}
        return files | ({} if self.ema is None else {EMA_FILE: averages}), values

    def write(self, content: CheckpointContent, *, best_step: int | None = None) -> Path:
        """Write a checkpoint, complete or not at all, then delete the oldest ones.

        Before any is deleted, the new one is read back and compared with what was written.

        best_step: Its checkpoint is kept besides the newest ones.

        Raises:
            UserError: If the disk is full or cannot be written to, or reads back something else.
        """
        record = content.record
        final = self.folder.checkpoint(record.step)
        part = final.with_name(final.name + PART_SUFFIX)
        try:
            remove_checkpoint(part)
            part.mkdir(parents=True)
            digests = _write_files(part, content)
            # Last, so that a folder with a state file is a complete checkpoint.
            write_atomic(part / STATE_FILE, state_content(asdict(record), digests))
            sync_folder(part)
            remove_checkpoint(final)
            part.rename(final)
            sync_folder(final.parent)
        except BaseException as error:
            with suppress(OSError):
                remove_checkpoint(part)
            if isinstance(error, OSError):
                raise cannot_write(final, error) from error
            raise
        self._delete_oldest(record.step, best_step)
        return final

    def _delete_oldest(self, newest: int, best_step: int | None) -> None:
        beyond = self.folder.complete_checkpoints()[: -self.keep]
        kept = starred_steps(self.folder) | {best_step}
        superfluous = [path for step, path in beyond if step not in kept]
        if not superfluous or not are_stars_known(self.folder):
            return
        path = self.folder.checkpoint(newest)
        try:
            verify(path, newest)
        except DamagedCheckpoint as error:
            with suppress(OSError):
                set_aside(path)
            raise UserError(
                f"{path}: this disk reads back something else than was written ({error})",
                "Older checkpoints were kept",
                "Check the disk and the computer's memory, then resume the run.",
                failure="disk error",
            ) from error
        for path in superfluous:
            # One that cannot be deleted now is half deleted, and cleaned up at the next start.
            with suppress(OSError):
                remove_checkpoint(path)

    def byte_count(self) -> int:
        """Return the bytes of the newest checkpoint; before the first one, an estimate."""
        if complete := self.folder.complete_checkpoints():
            return size_of(complete[-1][1])
        weights = self.method.state_dict().values()
        # The EMA is in float32.
        ema = sum(4 * weight.numel() for weight in weights) if self.ema is not None else 0
        parts = 1 if self.sharding is None else self.sharding.world.size
        size = sum(weight.nbytes for weight in weights) + ema + self.optimizer.byte_count()
        return parts * size

    def restore(self, record: CheckpointRecord) -> list[str]:
        """Load a checkpoint; return warnings.

        Call before gradient hooks are registered and before the first step; later only to export,
        if no training follows.

        Raises:
            UserError: If its files are damaged or do not fit the config.
        """
        path = self.folder.checkpoint(record.step)
        try:
            weights = load_file(path / WEIGHTS_FILE)
            self.method.load_state_dict(weights)
            # Of layers that nothing reads, which earlier versions trained, too.
            former = weights.keys() - self.method.state_dict().keys()
            values = parse_object((path / OPTIMIZER_VALUES_FILE).read_bytes(), with_nan=True)
            warnings = self.optimizer.load(
                load_file(path / OPTIMIZER_FILE), values, former=frozenset(former)
            )
            warnings += self._restore_ema(path / EMA_FILE, former)
            self.engine.load_state_dict(record.engine)
            return warnings
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path}: this checkpoint cannot be loaded ({str(error)[:200]})",
                "Expected an undamaged checkpoint, made with this run's method settings",
                "Restore config.json if you changed it, or delete this checkpoint's folder to"
                " continue from the one before it.",
            ) from error

    def _restore_ema(self, path: Path, former: Set[str]) -> list[str]:
        if self.ema is None:
            return []
        if path.is_file():
            read = load_file(path).items()
            averages = {name: each for name, each in read if name not in former}
            if self.sharding is not None:
                averages = {name: self.sharding.cut(name, each) for name, each in averages.items()}
            self.ema.load_state_dict(averages)
            return []
        self.ema.restart()
        return [
            "the checkpoint has no EMA of the weights (ema.use): it starts from the current weights"
        ]


def _write_files(folder: Path, content: CheckpointContent) -> dict[str, str]:
    """Write all files but the state; return their digests by name."""
    digests = {
        name: _write(folder / name, safetensors_pieces(tensors, {}))
        for name, tensors in content.tensors.items()
    }
    values = content.optimizer_values
    return digests | {OPTIMIZER_VALUES_FILE: _write(folder / OPTIMIZER_VALUES_FILE, [values])}


def _write(path: Path, pieces: Iterable[bytes | memoryview]) -> str:
    """Write a file and flush it to the disk; return the SHA-256 of what it is to hold.

    Of the bytes in memory, so that reading the file back shows whether they arrived. Adds a fifth
    to the time of writing (measured: 1 s per GB).
    """
    digest = hashlib.sha256()
    with path.open("xb") as file:
        for piece in pieces:
            digest.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):  # what is read back then comes from the disk
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return digest.hexdigest()


def _require_finite(weights: Mapping[str, Tensor]) -> None:
    finite = [torch.isfinite(value).all() for value in weights.values()]
    # One read for all: each read waits for the device.
    for name, is_finite in zip(weights, read_flags(finite), strict=True):
        if not is_finite:
            raise StateLost(
                f"training has diverged: the trained weights are not finite numbers ({name})",
                "Your last good checkpoint was not overwritten",
                "Lower the learning rate (optimizer.lr), or train in bf16 or fp32.",
            )
