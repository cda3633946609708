"""Location of a reward network's files: a file, a folder, or a model on the Hub."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from huggingface_hub import hf_hub_download
from torch import nn

from modules.formats.files.component_configs import read_config
from modules.formats.files.hub_download import ERRORS, download, download_error
from modules.formats.files.tensor_source import TensorReader
from modules.formats.original.layout import read_component
from onetrainer.errors import UserError
from onetrainer.model_files.folders import weight_files
from onetrainer.model_files.hub import is_hub_name
from onetrainer.model_files.original.recipe import Recipe

Report = Callable[[str], None]

VOCABULARY, BERT = "vocab.txt", "google-bert/bert-base-uncased"
_STEM = "model"
_ENDINGS = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
_WEIGHTS = re.compile(r"(model|pytorch_model)(-\d+-of-\d+)?\.(safetensors|bin)(\.index\.json)?")
_OPEN_CLIP = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
)
_SMALL = (".json", VOCABULARY, "merges.txt")


@dataclass(frozen=True)
class NetworkFiles:
    """weights: the parts of one file of tensors. home: the folder of config and vocabulary."""

    weights: tuple[Path, ...]
    home: Path

    def config(self) -> dict[str, object]:
        """Read config.json; {} if there is none. Raises UserError if it is damaged."""
        path = self.home / "config.json"
        return read_config(path) if path.is_file() else {}


def find_network(
    model: str, *, preferred: Sequence[str] = (), offline: bool, report: Report
) -> NetworkFiles:
    """Find the files of a network, and download them if it is a name on the Hub.

    Args:
        model: A file, a folder or a name on the Hub.
        preferred: Names of weight files that are chosen before others.
        offline: Use only what was downloaded before, as when the Hub cannot be reached.
        report: Called with messages about progress.

    Raises:
        UserError: The network is not found.
    """
    if is_hub_name(model):
        choose = partial(select_files, preferred=preferred)
        return _in_folder(download(model, choose, offline=offline, report=report), preferred)
    path = Path(model).expanduser()
    if path.is_dir():
        return _in_folder(path, preferred)
    if not path.is_file():
        raise UserError(
            f"{path}: no such file or folder",
            "Expected the network of a reward",
            'Check the path; a name on the Hugging Face Hub is written as "owner/name"',
        )
    return NetworkFiles((path,), path.parent)


def find_vocabulary(files: NetworkFiles, model: str, *, offline: bool, report: Report) -> Path:
    """Find BERT's vocab.txt next to a network's files; for one on the Hub download it."""
    path = files.home / VOCABULARY
    if path.is_file() or not is_hub_name(model):
        return path
    try:
        report(f"loading {BERT}'s vocabulary")
        return Path(hf_hub_download(BERT, VOCABULARY, local_files_only=offline))
    except ERRORS as error:
        raise download_error(BERT, error, offline=offline) from error


def fill_network(
    network: nn.Module,
    reader: TensorReader,
    recipes: Iterable[Recipe],
    *,
    device: torch.device,
    dtype: torch.dtype,
) -> None:
    """Load an empty network's weights from a file, and freeze it in evaluation mode.

    Raises:
        UserError: Tensors are missing.
    """
    shapes = {name: tensor.shape for name, tensor in network.state_dict().items()}
    state = read_component(reader, list(recipes), shapes, dtype=dtype, device=device)
    network.load_state_dict(state, assign=True)
    network.requires_grad_(False).eval().to(device)


def select_files(names: Sequence[str], preferred: Sequence[str]) -> list[str]:
    """Select a repository's files: configs, vocabulary, and weights in one format.

    Pickles only if there is nothing else; they are read without executing them.
    """
    top = [name for name in sorted(names) if "/" not in name]
    small = [name for name in top if name.endswith(_SMALL) and ".index." not in name]
    first = next((name for name in preferred if name in top), None)
    if first is not None:
        return [*small, first]
    weights = [name for name in top if _WEIGHTS.fullmatch(name)]
    safe = [name for name in weights if ".safetensors" in name]
    open_clip = [name for name in _OPEN_CLIP if name in top][:1]
    return [*small, *(safe or weights or open_clip)]


def _in_folder(folder: Path, preferred: Sequence[str]) -> NetworkFiles:
    for name in preferred:
        if (folder / name).is_file():
            return NetworkFiles((folder / name,), folder)
    files = sorted(path for path in folder.iterdir() if path.suffix in _ENDINGS)
    if len(files) == 1:
        return NetworkFiles((files[0],), folder)
    return NetworkFiles(tuple(weight_files(folder, _STEM)), folder)
