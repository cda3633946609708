"""The files that a run goes on from, kept in its folder: it can be resumed when they are gone."""

import hashlib
import os
import shutil
from pathlib import Path

from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.run.run_folder import RunFolder, cannot_write


def with_kept_files(config: TrainConfig, folder: RunFolder) -> TrainConfig:
    """The config with copies in place of all files to go on from, made when the run begins.

    A checkpoint does not hold all that such a file tells: how many vectors a word has, and those
    of them that do not train. A copy also stays as it was where the file itself is written anew.
    Raises UserError for a file that cannot be read and has no copy, and on a full disk.
    """
    words = tuple(
        word.model_copy(
            update={
                "start_from": _kept(
                    folder, word.start_from, setting=f"embeddings.tokens.{place}.start_from"
                )
            }
        )
        for place, word in enumerate(config.embeddings.tokens)
    )
    method = config.method
    if isinstance(method, Adapter):
        own = _kept(folder, method.start_from, setting="method.start_from")
        method = method.model_copy(update={"start_from": own})
    embeddings = config.embeddings.model_copy(update={"words": words})
    return config.model_copy(update={"method": method, "embeddings": embeddings})


def _kept(folder: RunFolder, file: str, *, setting: str) -> str:
    """The path of a file's copy, which is there then; empty for none."""
    if not file:
        return ""
    source = Path(file)
    # A folder for each path: two files may have one name, and messages tell the name.
    copy = folder.start_files / hashlib.sha256(file.encode()).hexdigest()[:16] / source.name
    if copy.is_file():
        return str(copy)
    try:
        original = source.open("rb")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            f"{setting}: {file} cannot be read ({reason})",
            "A file to go on from was expected",
            "Put it back, choose another one, or leave it empty to start anew",
        ) from error
    part = copy.with_name(copy.name + ".part")
    try:
        with original:
            copy.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as written:
                shutil.copyfileobj(original, written)
                written.flush()
                os.fsync(written.fileno())
        part.replace(copy)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise cannot_write(copy, error) from error
    return str(copy)
