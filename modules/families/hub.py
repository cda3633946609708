"""Models of the Hub, downloaded once and then read from the local cache."""

import errno
import glob
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import (  # type: ignore[attr-defined]  # HTTPError: of all requests
    GatedRepoError,
    HFValidationError,
    HTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)

from onetrainer.errors import UserError
from onetrainer.families.registry import FAMILIES

INDEX = "model_index.json"
COMPONENTS = tuple(dict.fromkeys(folder for spec in FAMILIES for folder in spec.components))
CONFIG_FOLDERS = ("scheduler", "tokenizer", "tokenizer_2")
WEIGHTS = ".safetensors"
# "model.fp16.safetensors" and, sharded, "model.fp16-00001-of-00002.safetensors"
VARIANT = re.compile(r"\.(?P<name>fp16|bf16|fp32|non_ema|ema)(-\d+-of-\d+)?\.safetensors$")
HALF = "fp16"
LOGIN = "hf auth login"
TIMEOUT = 10.0  # seconds to wait for the Hub's answer


def fetch(
    name: str, *, offline: bool, report: Callable[[str], None], revision: str | None = None
) -> Path:
    """Return the diffusers folder of a hub model ("owner/name"), downloading it if needed.

    The folder's name is the commit. Configs, tokenizers and safetensors weights are downloaded: of
    each component the default weights, or the fp16 variant if it has no others; no pickles, ONNX,
    Flax or single files.

    offline: Use only what was downloaded before; also the fallback without a network.
    report: Called with a description of each stage.
    revision: Commit that no other can replace; None for the newest.

    Raises:
        UserError: With the reason and what to do.
    """
    try:
        if not offline:
            report(f"asking the Hugging Face Hub for {name}")
        names = [] if offline else _list_files(name, revision)
        if names:
            chosen = [*map(glob.escape, _require_diffusers_model(name, names))]
            report(f"downloading {name}")
            with _ended_by_signals():
                return Path(snapshot_download(name, revision=revision, allow_patterns=chosen))
        folder = snapshot_download(
            name, revision=revision, allow_patterns=[INDEX], local_files_only=True
        )
        report(f"using the downloaded copy of {name}")
        return Path(folder)
    except (HTTPError, OSError, HFValidationError) as error:
        if revision is not None and isinstance(error, LocalEntryNotFoundError):
            remedy = "Turn off model.offline" if offline else "Check the network and the login"
            raise UserError(
                f"{name}: the version this run started with ({revision}) is not on this computer,"
                f" and {'offline mode is on' if offline else 'the Hub did not provide it'}",
                "A run must be resumed with exactly the model it started with",
                f"{remedy}; if the Hub no longer has this version, start a new run",
            ) from error
        raise _hub_error(name, error, offline=offline) from error


def choose_files(names: Iterable[str]) -> list[str]:
    """Return the files of a repository that make up a diffusers folder."""
    listed = sorted(names)
    chosen = [name for name in listed if name == INDEX]
    for folder in CONFIG_FOLDERS:
        chosen += [name for name in _files_in(listed, folder) if name.endswith((".json", ".txt"))]
    for folder in COMPONENTS:
        inside = _files_in(listed, folder)
        weights = {name: VARIANT.search(name) for name in inside if name.endswith(WEIGHTS)}
        default = [name for name, variant in weights.items() if variant is None]
        half = [name for name, variant in weights.items() if variant and variant["name"] == HALF]
        chosen += [name for name in inside if name.endswith(".json")] + (default or half)
    return chosen


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let a signal that would raise KeyboardInterrupt end the process instead.

    An exception would wait for the threads that download, for as long as their files take. What
    they have written is continued by the next download.
    """
    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) is signal.default_int_handler
    ]
    for number in numbers:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.default_int_handler)


def _files_in(names: Iterable[str], folder: str) -> list[str]:
    """Return the files directly in a folder; deeper ones belong to other programs."""
    return [name for name in names if name.rpartition("/")[0] == folder]


def _list_files(name: str, revision: str | None) -> list[str]:
    """List the files of a repository; empty if the Hub cannot be reached.

    Also empty if the Hub no longer has, or no longer shows, a revision that may still be on this
    disk.
    """
    try:
        # list_repo_files would retry for half a minute without a network.
        info = HfApi().model_info(name, revision=revision, timeout=TIMEOUT)
        return [file.rfilename for file in info.siblings or []]
    except RepositoryNotFoundError:
        if revision is None:
            raise
        return []
    except (HTTPError, OSError):
        return []


def _require_diffusers_model(name: str, names: list[str]) -> list[str]:
    """Return the files to download; raise UserError if the repository is not a diffusers model."""
    chosen = choose_files(names)
    if INDEX not in chosen:
        raise UserError(
            f"{name}: this is not a model in the diffusers layout; it has no {INDEX}",
            "Expected a model with a folder for each component",
            "If it offers a .safetensors file, download it and enter its path",
        )
    if not any(file.startswith("unet/") and file.endswith(WEIGHTS) for file in chosen):
        raise UserError(
            f"{name}: this model has no .safetensors weights",
            "Weights in other formats can contain code and are not downloaded",
            "Choose another model, or one of its single files",
        )
    return chosen


def _hub_error(name: str, error: Exception, *, offline: bool) -> UserError:
    path = "If you meant a file or folder, it does not exist; enter its full path"
    match error:
        case GatedRepoError():
            return UserError(
                f"{name}: this model can be downloaded only after accepting its terms",
                "Expected a login that has accepted them",
                f"Accept the terms on the model's page on the Hugging Face Hub, then run: {LOGIN}",
            )
        case RepositoryNotFoundError():
            return UserError(
                f"{name}: the Hugging Face Hub has no model of this name, or it is private",
                path,
                f"Check the spelling; for a private model, run: {LOGIN}",
            )
        case HFValidationError():
            return UserError(f"{name}: this is not a valid hub model name", "", path)
        case LocalEntryNotFoundError() if offline:
            return UserError(
                f"{name}: this model has not been downloaded yet, and offline mode is on",
                path,
                "Turn off model.offline to download it, or choose another model",
            )
        case OSError(errno=errno.ENOSPC):
            return UserError(
                f"{name}: the disk is full",
                "The download needs more space",
                "Free some space, or set HF_HOME to a folder on another disk",
            )
        case _:
            return UserError(
                f"{name}: the Hugging Face Hub cannot be reached, and this model has not been"
                " downloaded yet",
                path,
                "Check the network and try again",
            )
