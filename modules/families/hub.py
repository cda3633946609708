"""A model by its name on the Hugging Face Hub: downloaded once, then found on the disk."""

import errno
import glob
import re
from collections.abc import Callable, Iterable
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

INDEX = "model_index.json"
COMPONENTS = ("unet", "vae", "text_encoder", "text_encoder_2")
SMALL = ("scheduler", "tokenizer", "tokenizer_2")
WEIGHTS = ".safetensors"
# "model.fp16.safetensors" and, in pieces, "model.fp16-00001-of-00002.safetensors"
VARIANT = re.compile(r"\.(?P<name>fp16|bf16|fp32|non_ema|ema)(-\d+-of-\d+)?\.safetensors$")
HALF = "fp16"
LOGIN = "hf auth login"
PATIENCE = 10.0  # seconds to wait for the hub's answer


def fetch(
    name: str, *, offline: bool, tell: Callable[[str], None], revision: str | None = None
) -> Path:
    """The diffusers folder of a model, "owner/name"; downloaded where it is not on the disk yet.

    The folder's own name is the commit that it was made from.

    Taken are configs, tokenizers and safetensors weights: the usual ones where a component has
    them, the fp16 ones otherwise; no pickles, no ONNX, no Flax, no single files.
    tell: gets words for what is being done. offline: only what was downloaded before, which is
    also what is taken where there is no network. revision: a commit, which no other can stand in
    for; None for the newest. Raises UserError with the reason and the remedy.
    """
    try:
        if not offline:
            tell(f"asking the hub for {name}")
        names = [] if offline else _listed(name, revision)
        if names:
            chosen = [*map(glob.escape, _chosen(name, names))]
            tell(f"downloading {name}")
            return Path(snapshot_download(name, revision=revision, allow_patterns=chosen))
        folder = snapshot_download(
            name, revision=revision, allow_patterns=[INDEX], local_files_only=True
        )
        tell(f"{name}, as it was downloaded before")
        return Path(folder)
    except (HTTPError, OSError, HFValidationError) as error:
        if revision is not None and isinstance(error, LocalEntryNotFoundError):
            raise _no_such_version(name, revision, offline=offline) from error
        raise _in_words(name, error, offline=offline) from error


def choose(names: Iterable[str]) -> list[str]:
    """Which of a repository's files make a diffusers folder."""
    listed = sorted(names)
    chosen = [name for name in listed if name == INDEX]
    for folder in SMALL:
        chosen += [name for name in _inside(listed, folder) if name.endswith((".json", ".txt"))]
    for folder in COMPONENTS:
        inside = _inside(listed, folder)
        weights = {name: VARIANT.search(name) for name in inside if name.endswith(WEIGHTS)}
        usual = [name for name, variant in weights.items() if variant is None]
        half = [name for name, variant in weights.items() if variant and variant["name"] == HALF]
        chosen += [name for name in inside if name.endswith(".json")] + (usual or half)
    return chosen


def _inside(names: Iterable[str], folder: str) -> list[str]:
    """Directly in the folder; what lies deeper is of other programs."""
    return [name for name in names if name.rpartition("/")[0] == folder]


def _listed(name: str, revision: str | None) -> list[str]:
    """The names of a repository's files; none where the hub cannot be reached.

    None either where it no longer has, or shows, a revision that may still be on this disk.
    """
    try:
        # Not list_repo_files: that one tries for half a minute where there is no network.
        info = HfApi().model_info(name, revision=revision, timeout=PATIENCE)
        return [file.rfilename for file in info.siblings or []]
    except RepositoryNotFoundError:
        if revision is None:
            raise
        return []
    except (HTTPError, OSError):
        return []


def _chosen(name: str, names: list[str]) -> list[str]:
    """What is downloaded of a repository; raises UserError if it is no model."""
    chosen = choose(names)
    if INDEX not in chosen:
        raise UserError(
            f"{name}: this is no model in the diffusers layout, for it has no {INDEX}",
            "A model with a folder for each component was expected",
            "If it offers a .safetensors file, download that and give its path",
        )
    if not any(part.startswith("unet/") and part.endswith(WEIGHTS) for part in chosen):
        raise UserError(
            f"{name}: this model offers no .safetensors weights",
            "Other weights can hold code and are not downloaded",
            "Choose another model, or one of its single files",
        )
    return chosen


def _no_such_version(name: str, revision: str, *, offline: bool) -> UserError:
    allow = "Turn off model.offline" if offline else "Check the network and the login"
    return UserError(
        f"{name}: the version that this run began with ({revision}) is not on this disk, and "
        + ("the network is not to be used" if offline else "the hub did not give it"),
        "A run goes on with the very model that it began with",
        f"{allow}; if the hub no longer has that version, start a new run",
    )


def _in_words(name: str, error: Exception, *, offline: bool) -> UserError:
    path = "If a file or a folder was meant, there is none of this name; give its whole path"
    match error:
        case GatedRepoError():
            return UserError(
                f"{name}: the owner of this model lets in only those who accept its terms",
                "A login of somebody who did was expected",
                f"Accept them on the model's page on the hub, then run: {LOGIN}",
            )
        case RepositoryNotFoundError():
            return UserError(
                f"{name}: there is no such model on the hub, or it is private",
                f"{path}",
                f"Check the spelling; for a private model run: {LOGIN}",
            )
        case HFValidationError():
            return UserError(f"{name}: no model on the hub can have this name", "", path)
        case LocalEntryNotFoundError() if offline:
            return UserError(
                f"{name}: this model was not downloaded yet, and the network is not to be used",
                path,
                "Turn off model.offline to have it downloaded, or choose another model",
            )
        case OSError(errno=errno.ENOSPC):
            return UserError(
                f"{name}: the disk is full",
                "The download needs more room",
                "Make room, or set HF_HOME to a folder on another disk",
            )
        case _:
            return UserError(
                f"{name}: the hub cannot be reached, and this model was not downloaded yet",
                path,
                "Check the network and try again",
            )
