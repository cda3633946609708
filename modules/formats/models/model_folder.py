"""Writing of a whole model as a diffusers folder."""

import json
from collections.abc import Iterable
from pathlib import Path

import torch

from modules.formats.files.component_configs import Config, read_config
from modules.formats.files.files import (
    byte_count,
    refuse_existing,
    require_space,
    write_safetensors,
)
from modules.formats.files.tensor_source import cast_lazily
from modules.formats.models.single_file import convert_extras
from modules.formats.models.whole_model import INDEX, Description, WholeModel
from onetrainer.errors import UserError
from onetrainer.families.spec import CLIP_TOKENIZER
from onetrainer.files.atomic import atomic_file, atomic_folder
from onetrainer.files.ordinary import read_ordinary

EXTRAS_FILE = "original_extras.safetensors"
"""Tensors that only single files hold, kept for conversion back to one."""

VOCABULARY = ("vocab.json", "merges.txt")
TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER_FILES = (*VOCABULARY, "tokenizer.json", "special_tokens_map.json", "added_tokens.json")
# Keys in which transformers notes the folders and files of a tokenizer; it reads none of them.
TOKENIZER_PLACES = ("name_or_path", "_name_or_path", "cache_dir")
TOKENIZERS = ("tokenizer", "tokenizer_2")
TORCH_FILE = {"format": "pt"}  # without it, some versions of transformers refuse a file
SMALL_FILES = 8 * 1024**2  # a generous allowance for configs and two tokenizers


def write_model_folder(
    path: Path, model: WholeModel, *, dtype: torch.dtype | None, overwrite: bool
) -> None:
    """Write the model, complete or not at all, for diffusers' pipelines.

    dtype: Of every weight; None keeps each tensor's own.

    Raises:
        UserError: Before writing, if the path exists or the disk has too little space; later, if
            the dtype cannot hold a weight.
    """
    weights = {
        component: {
            name: cast_lazily(tensor, dtype, name=f"{component}/{name}")
            for name, tensor in tensors.items()
        }
        for component, tensors in model.components.items()
    }
    extras = None if model.extras is None else convert_extras(model.extras, dtype)
    _refuse_taken(path, overwrite=overwrite)
    size = sum(map(byte_count, weights.values())) + byte_count(extras or {})
    require_space(path, size + SMALL_FILES)
    stems = model.description.family.components
    with atomic_folder(path) as folder:
        for component, tensors in weights.items():
            file = folder / component / f"{stems[component].weights}.safetensors"
            write_safetensors(file, tensors, TORCH_FILE)
        if extras is not None:
            write_safetensors(folder / EXTRAS_FILE, extras, model.metadata)
        _write_descriptions(folder, model.description)


def unwritten_components(index: Config, components: Iterable[str]) -> list[str]:
    """Return the index's components that are never written, such as "safety checker"."""
    written = (*components, *TOKENIZERS, "scheduler")
    return [
        name.replace("_", " ")
        for name, value in index.items()
        if isinstance(value, list) and any(value) and name not in written
    ]


def _refuse_taken(path: Path, *, overwrite: bool) -> None:
    """Raise UserError unless the path may be replaced: only folders that look like a model."""
    if not overwrite:
        refuse_existing(path)
    if path.is_dir() and any(path.iterdir()) and not (path / INDEX).is_file():
        raise UserError(
            f"{path}: this folder holds something other than a model",
            f"Expected an empty folder, or one with {INDEX}",
            "Choose another name",
        )
    if path.is_file():
        raise UserError(f"{path}: this is a file", "Expected a folder", "Choose another name")


def _write_descriptions(folder: Path, description: Description) -> None:
    for component, config in description.configs.items():
        _write_json(folder / component / "config.json", config)
    _write_json(folder / "scheduler" / "scheduler_config.json", description.scheduler)
    index = _index(description)
    for name in TOKENIZERS:
        if name in index:
            _copy_tokenizer(folder / name, description)
    _write_json(folder / INDEX, index)


def _index(description: Description) -> Config:
    """Return the published models' index with the model's sampling settings and tokenizers."""
    family, index = description.family, description.index
    kept = (*family.index_flags, *TOKENIZERS)
    published = read_config(family.configs / INDEX)
    return {
        **published,
        **{name: index[name] for name in kept if _is_present(index.get(name))},
        "_class_name": family.pipeline,
        "scheduler": ["diffusers", description.scheduler["_class_name"]],
    }


def _is_present(entry: object) -> bool:
    """Return whether an index has an entry: [null, null] stands for a missing component."""
    return entry is not None and not (isinstance(entry, list) and None in entry)


def _copy_tokenizer(folder: Path, description: Description) -> None:
    """Copy the model's tokenizer; a missing vocabulary is copied from SD 1.5, as all share it."""
    folder.mkdir(parents=True)
    source = description.home / folder.name
    if not source.is_dir():
        source = description.family.configs / folder.name
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            _copy(source / name, folder / name)
    if (source / TOKENIZER_CONFIG).is_file():
        config = read_config(source / TOKENIZER_CONFIG)
        _write_json(folder / TOKENIZER_CONFIG, _without_places(config))
    if not any((folder / name).is_file() for name in ("vocab.json", "tokenizer.json")):
        for name in VOCABULARY:
            _copy(CLIP_TOKENIZER / name, folder / name)


def _copy(source: Path, target: Path) -> None:
    try:
        data = read_ordinary(source)
    except OSError as error:
        raise UserError(
            f"{source}: the file cannot be read ({(error.strerror or str(error)).lower()})",
            remedy="Check its permissions and the disk",
        ) from error
    with atomic_file(target) as file:
        file.write(data)


def _without_places(config: Config) -> Config:
    return {
        key: value
        for key, value in config.items()
        if key not in TOKENIZER_PLACES and not key.endswith("_file")
    }


def _write_json(path: Path, content: Config) -> None:
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    with atomic_file(path) as file:
        file.write(text.encode("utf-8"))
