"""Models of the Hub, downloaded once and then read from the local cache."""

import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from modules.formats.files.hub_download import download
from onetrainer.errors import UserError
from onetrainer.families.registry import FAMILIES

INDEX = "model_index.json"
COMPONENTS = tuple(dict.fromkeys(folder for spec in FAMILIES for folder in spec.components))
CONFIG_FOLDERS = ("scheduler", "tokenizer", "tokenizer_2")
WEIGHTS = ".safetensors"
# "model.fp16.safetensors" and, sharded, "model.fp16-00001-of-00002.safetensors"
VARIANT = re.compile(r"\.(?P<name>fp16|bf16|fp32|non_ema|ema)(-\d+-of-\d+)?\.safetensors$")
HALF = "fp16"


def fetch(
    name: str, *, offline: bool, report: Callable[[str], None], revision: str | None = None
) -> Path:
    """Return the diffusers folder of a hub model, as `download` does.

    Configs, tokenizers and safetensors weights are downloaded: of each component the default
    weights, or the fp16 variant if it has no others; no pickles, ONNX, Flax or single files.
    """
    choose = partial(_require_diffusers_model, name)
    return download(name, choose, offline=offline, report=report, revision=revision, index=INDEX)


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


def _files_in(names: Iterable[str], folder: str) -> list[str]:
    """Return the files directly in a folder; deeper ones belong to other programs."""
    return [name for name in names if name.rpartition("/")[0] == folder]


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
