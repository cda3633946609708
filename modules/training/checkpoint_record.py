"""What a checkpoint records besides tensors, and which checkpoint a run continues from."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from onetrainer.errors import UserError, some_of
from onetrainer.files.own_json import NotOurs, typed
from onetrainer.run.checkpoint_files import (
    DamagedCheckpoint,
    read_state,
    set_aside,
    step_of,
    unusable_checkpoints,
    verify,
)
from onetrainer.run.run_folder import STATE_FILE, RunFolder, cannot_write

# Keys of state.json that were renamed with config version 6.
_FORMER_KEYS = {"held_out": "validation"}
_UNUSED_KEYS = {"data_identity"}


@dataclass(frozen=True)
class CheckpointRecord:
    """Contents of state.json.

    Attributes:
        events_size: Bytes of events.jsonl that belong to the run up to here.
        engine: The loss scale and its history; empty without one.
        data_digest: Of the encoded images and captions in their order.
        data: Digests of the images, the captions and the prompts, by what they are; empty in those
            of earlier versions.
        validation_files: Digests of the files of the validation images; None in those of earlier
            versions.
        validation: Digest of the validation images, with the step since which they are held out; ""
            without validation.
        config: The run's config, by which later changes are found; empty in those of earlier
            versions, like the following.
        metadata: What a file of these weights says about its training.
    """

    step: int
    config_digest: str
    events_size: int
    versions: dict[str, str] = field(default_factory=dict)
    engine: dict[str, Any] = field(default_factory=dict)
    data_digest: str = ""
    validation: str = ""
    data: dict[str, str] = field(default_factory=dict)
    validation_files: list[str] | None = None
    config: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RestorePoint:
    """What a run continues from.

    Attributes:
        record: Of the newest sound checkpoint; None for a new run.
        warnings: One for each newer checkpoint, which is damaged.
    """

    record: CheckpointRecord | None
    warnings: tuple[str, ...] = ()


def find_restore_point(
    folder: RunFolder, *, verifying: Callable[[], AbstractContextManager[None]] = nullcontext
) -> RestorePoint:
    """Find the newest sound checkpoint of a run, and set aside damaged newer ones.

    verifying: Makes the context in which checkpoints are read and nothing is written.

    Raises:
        UserError: If all are damaged, or one was written by another version of this program.
    """
    damage: dict[Path, str] = {}
    sound = None
    with verifying():
        for step, path in reversed(folder.complete_checkpoints()):
            try:
                verify(path, step)
                sound = read_record(folder, step)
                break
            except DamagedCheckpoint as error:
                damage[path] = str(error)
    unusable = unusable_checkpoints(folder.checkpoints)
    if sound is not None:
        newer = {
            path: what
            for path, what in unusable.items()
            if step_of(path) > sound.step and any(path.iterdir())  # else a deletion's rest
        }
        return RestorePoint(sound, tuple(_set_aside(damage | newer, sound.step)))
    damage |= unusable
    if not damage:
        return RestorePoint(None)
    found = "; ".join(f"{path.name}: {what}" for path, what in damage.items())
    raise UserError(
        f"{folder.checkpoints}: every checkpoint of this run is damaged ({found})",
        "Nothing was deleted, and the run does not begin again by itself",
        "Restore one of these folders from a backup, or delete them all to train from step 0.",
        failure="disk error",
    )


def _set_aside(damage: Mapping[Path, str], step: int) -> Iterator[str]:
    """Rename damaged checkpoints; yield a warning about each. step: That is continued from."""
    for path, what in damage.items():
        try:
            kept = set_aside(path)
        except OSError as error:
            raise cannot_write(path, error) from error
        yield (
            f"the checkpoint {path.name} is damaged ({what}): the run goes on from step {step} and"
            f" repeats what came after. The damaged one is kept as {kept.name}; delete it if you"
            " do not need it"
        )


def read_record(folder: RunFolder, step: int) -> CheckpointRecord:
    """Return the record of a step's complete checkpoint.

    Raises:
        DamagedCheckpoint: If the state file is not what was written, or of other types.
        UserError: If it was written by another version of this program.
    """
    path = folder.checkpoint(step) / STATE_FILE
    document = read_state(path.parent, step)
    kept = {key: value for key, value in document.items() if key not in _UNUSED_KEYS}
    current = {_FORMER_KEYS.get(key, key): value for key, value in kept.items()}
    if unknown := current.keys() - {each.name for each in fields(CheckpointRecord)}:
        raise UserError(
            f"{path}: cannot be read as a checkpoint's state ({some_of(sorted(unknown), 3)})",
            "Expected a file of this version of the program",
            f"Delete {path.parent.name} to continue from the checkpoint before it.",
        )
    try:
        return typed(current, CheckpointRecord)
    except NotOurs as error:
        raise DamagedCheckpoint(f"{STATE_FILE} {error}") from error
