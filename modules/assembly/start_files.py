"""Copies of the files that a run starts from, so that it can be resumed without the originals."""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.files.atomic import atomic_file
from onetrainer.run.run_folder import RunFolder, cannot_write


def with_start_files_copied(config: TrainConfig, folder: RunFolder) -> TrainConfig:
    """Return the config with paths of copies in the run folder, made when the run begins.

    Checkpoints lack some contents of these files: how many vectors an embedding has, and those that
    are not trained. Copies also stay the same when the originals are overwritten.

    Raises:
        UserError: If a file without a copy cannot be read, or the disk is full.
    """
    return with_start_files(config, lambda file, setting: _copy_file(folder, file, setting=setting))


def with_start_files(config: TrainConfig, change: Callable[[str, str], str]) -> TrainConfig:
    """Return the config with other start files. change: Called with a file and its setting."""
    tokens = tuple(
        token.model_copy(
            update={"start_from": change(token.start_from, f"embeddings.tokens.{place}.start_from")}
        )
        for place, token in enumerate(config.embeddings.tokens)
    )
    method = config.method
    if isinstance(method, Adapter):
        start_file = change(method.start_from, "method.start_from")
        method = method.model_copy(update={"start_from": start_file})
    embeddings = config.embeddings.model_copy(update={"tokens": tokens})
    return config.model_copy(update={"method": method, "embeddings": embeddings})


def _copy_file(folder: RunFolder, file: str, *, setting: str) -> str:
    """Return the path of a file's copy; "" for no file."""
    if not file:
        return ""
    source = Path(file)
    # A folder for each path: two files may have the same name, which messages show.
    copy = folder.start_files / hashlib.sha256(file.encode()).hexdigest()[:16] / source.name
    if copy.is_file():
        return str(copy)
    try:
        original = source.open("rb")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            f"{setting}: {file} cannot be read ({reason})",
            "Expected a file to start from",
            "Put it back, choose another one, or leave the setting empty.",
        ) from error
    try:
        with original, atomic_file(copy) as written:
            shutil.copyfileobj(original, written)
    except OSError as error:
        raise cannot_write(copy, error) from error
    return str(copy)
