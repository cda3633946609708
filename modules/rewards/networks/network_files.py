"""Where the files of a reward's network are: a file, a folder, or a name on the hub."""

import glob
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import (  # type: ignore[attr-defined]  # HTTPError: of all requests
    GatedRepoError,
    HFValidationError,
    HTTPError,
    RepositoryNotFoundError,
)

from modules.formats.files.component_configs import read_config
from onetrainer.errors import UserError
from onetrainer.model_files import weight_files
from onetrainer.model_files.hub import is_hub_name

Tell = Callable[[str], None]

VOCABULARY, BERT = "vocab.txt", "google-bert/bert-base-uncased"
PATIENCE = 10.0  # seconds to wait for the hub's answer
_STEM = "model"
_ENDINGS = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
_WHOLE = re.compile(r"(model|pytorch_model)(-\d+-of-\d+)?\.(safetensors|bin)(\.index\.json)?")
_OTHERS = (  # of OpenCLIP's networks
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
)
_SMALL = (".json", VOCABULARY, "merges.txt")


@dataclass(frozen=True)
class NetworkFiles:
    """weights: the parts of one file of tensors. home: the folder with configs and vocabulary."""

    weights: tuple[Path, ...]
    home: Path

    def config(self) -> dict[str, object]:
        """What config.json says; {} where there is none. UserError if it is damaged."""
        path = self.home / "config.json"
        return read_config(path) if path.is_file() else {}


def find_network(
    model: str, *, usual: Sequence[str] = (), offline: bool, tell: Tell
) -> NetworkFiles:
    """The files of a network, downloaded where a name on the hub is given.

    usual: names of weight files that are looked for before others. offline: only what was
    downloaded before, which is also taken where the hub cannot be reached. tell: gets words for
    what is being done. Raises UserError where there is none.
    """
    if is_hub_name(model):
        return _in_folder(_fetch(model, usual, offline=offline, tell=tell), usual)
    path = Path(model).expanduser()
    if path.is_dir():
        return _in_folder(path, usual)
    if not path.is_file():
        raise UserError(
            f"{path}: there is no such file or folder",
            "The network of a reward was expected",
            'Check the path; a name on the hub is written as "owner/name"',
        )
    return NetworkFiles((path,), path.parent)


def find_vocabulary(files: NetworkFiles, model: str, *, offline: bool, tell: Tell) -> Path:
    """BERT's vocab.txt: beside a network's files; for one of the hub from bert-base-uncased's."""
    beside = files.home / VOCABULARY
    if beside.is_file() or not is_hub_name(model):
        return beside
    try:
        tell(f"asking the hub for {BERT}'s vocabulary")
        return Path(hf_hub_download(BERT, VOCABULARY, local_files_only=offline))
    except (HTTPError, OSError) as error:
        raise _in_words(BERT, error, offline=offline) from error


def choose(names: Sequence[str], usual: Sequence[str]) -> list[str]:
    """Which of a repository's files are taken: configs, vocabulary, and weights in one form.

    Pickles only where there is nothing else; they are read without being run.
    """
    top = [name for name in sorted(names) if "/" not in name]
    small = [name for name in top if name.endswith(_SMALL) and ".index." not in name]
    first = next((name for name in usual if name in top), None)
    if first is not None:
        return [*small, first]
    whole = [name for name in top if _WHOLE.fullmatch(name)]
    safe = [name for name in whole if ".safetensors" in name]
    other = [name for name in _OTHERS if name in top][:1]
    return [*small, *(safe or whole or other)]


def _in_folder(folder: Path, usual: Sequence[str]) -> NetworkFiles:
    for name in usual:
        if (folder / name).is_file():
            return NetworkFiles((folder / name,), folder)
    found = sorted(path for path in folder.iterdir() if path.suffix in _ENDINGS)
    if len(found) == 1:
        return NetworkFiles((found[0],), folder)
    return NetworkFiles(tuple(weight_files(folder, _STEM)), folder)


def _fetch(name: str, usual: Sequence[str], *, offline: bool, tell: Tell) -> Path:
    try:
        names = [] if offline else _listed(name)
        if names:
            tell(f"downloading {name}")
            patterns = [*map(glob.escape, choose(names, usual))]
            return Path(snapshot_download(name, allow_patterns=patterns))
        return Path(snapshot_download(name, local_files_only=True))
    except (HTTPError, OSError, HFValidationError) as error:
        raise _in_words(name, error, offline=offline) from error


def _listed(name: str) -> list[str]:
    """The names of a repository's files; none where the hub cannot be reached."""
    try:
        info = HfApi().model_info(name, timeout=PATIENCE)
        return [file.rfilename for file in info.siblings or []]
    except RepositoryNotFoundError:
        raise
    except (HTTPError, OSError):
        return []


def _in_words(name: str, error: Exception, *, offline: bool) -> UserError:
    path = "If a file or a folder was meant, there is none of this name; give its whole path"
    match error:
        case GatedRepoError() | RepositoryNotFoundError():
            return UserError(
                f"{name}: the hub does not show this network, or there is none of this name",
                path,
                "Check the spelling; where its owner asks for it, accept the terms and log in",
            )
        case HFValidationError():
            return UserError(f"{name}: no network on the hub can have this name", "", path)
        case _ if offline:
            return UserError(
                f"{name}: it was not downloaded yet, and the network is not to be used",
                path,
                "Turn off model.offline to have it downloaded",
            )
        case _:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            return UserError(
                f"{name}: it could not be downloaded ({reason.splitlines()[0].lower()})",
                path,
                "Check the network and the room on the disk, and try again",
            )
