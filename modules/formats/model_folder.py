"""A whole model as a diffusers folder."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch

from modules.formats.component_configs import MODELS, Config
from modules.formats.files import (
    bytes_of,
    refuse_existing,
    replacing,
    require_space,
    write_safetensors,
)
from modules.formats.original.layout import Component
from modules.formats.single_file import convert_extras
from modules.formats.tensor_source import LazyTensor, converted
from modules.formats.whole_model import Description, WholeModel
from onetrainer.config.model import FamilyName, base_of
from onetrainer.errors import UserError

EXTRAS_FILE = "original_extras.safetensors"
"""What single files hold and folders do not, for the way back."""

INDEX = "model_index.json"
WEIGHTS: Mapping[Component, str] = {
    "unet": "diffusion_pytorch_model",
    "vae": "diffusion_pytorch_model",
    "text_encoder": "model",
    "text_encoder_2": "model",
}
PIPELINES: Mapping[FamilyName, str] = {
    "sd15": "StableDiffusionPipeline",
    "sd15-inpainting": "StableDiffusionInpaintPipeline",
    "sd2": "StableDiffusionPipeline",
    "sd2-inpainting": "StableDiffusionInpaintPipeline",
    "sdxl": "StableDiffusionXLPipeline",
    "sdxl-inpainting": "StableDiffusionXLInpaintPipeline",
}
VOCABULARY = ("vocab.json", "merges.txt")
TOKENIZER_FILES = (
    *VOCABULARY, "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json",
)  # fmt: skip
TORCH_FILE = {"format": "pt"}  # without it, some versions of transformers refuse a file
SMALL_FILES = 8 * 1024**2  # room for configs and two tokenizers, with much to spare


def write_model_folder(
    path: Path, model: WholeModel, *, dtype: torch.dtype | None, overwrite: bool
) -> None:
    """Writes the model, complete or not at all, as diffusers' pipelines load it.

    dtype: of every weight; None keeps each tensor's own. Raises UserError, before anything is
    written, if the path is taken or the disk has too little room.
    """
    weights = {
        component: {name: converted(tensor, dtype) for name, tensor in tensors.items()}
        for component, tensors in model.components.items()
    }
    extras = None if model.extras is None else convert_extras(model.extras, dtype)
    _refuse_taken(path, overwrite=overwrite)
    require_space(path, _size(weights, extras or {}))
    with _replacing_folder(path) as folder:
        for component, tensors in weights.items():
            file = folder / component / f"{WEIGHTS[component]}.safetensors"
            write_safetensors(file, tensors, TORCH_FILE)
        if extras is not None:
            write_safetensors(folder / EXTRAS_FILE, extras, model.metadata)
        _write_descriptions(folder, model.description)


@contextmanager
def _replacing_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which takes the path's place when the block ends without an error."""
    part, old = (path.with_name(path.name + end) for end in (".part", ".old"))
    _remove(part)
    part.mkdir(parents=True)
    try:
        yield part
        if path.exists():
            _remove(old)
            path.rename(old)
        part.rename(path)
        _remove(old)
    finally:
        _remove(part)
        if old.exists() and not path.exists():
            old.rename(path)


def _refuse_taken(path: Path, *, overwrite: bool) -> None:
    """Only what looks like a model is ever replaced: a folder may hold anything."""
    if not overwrite:
        refuse_existing(path)
    if path.is_dir() and any(path.iterdir()) and not (path / INDEX).is_file():
        raise UserError(
            f"{path}: this folder holds something else than a model",
            f"An empty folder, or one with {INDEX}, was expected",
            "Choose another name",
        )
    if path.is_file():
        raise UserError(f"{path}: this is a file", "A folder was expected", "Choose another name")


def _write_descriptions(folder: Path, description: Description) -> None:
    for component, config in description.configs.items():
        _write_json(folder / component / "config.json", config)
    _write_json(folder / "scheduler" / "scheduler_config.json", description.scheduler)
    index = _index(description)
    for name in ("tokenizer", "tokenizer_2"):
        if name in index:
            _copy_tokenizer(folder / name, description)
    _write_json(folder / INDEX, index)


def _index(description: Description) -> Config:
    text = (MODELS / base_of(description.family) / INDEX).read_text(encoding="utf-8")
    scheduler = ["diffusers", description.scheduler["_class_name"]]
    return {
        **json.loads(text),
        "_class_name": PIPELINES[description.family],
        "scheduler": scheduler,
    }


def _copy_tokenizer(folder: Path, description: Description) -> None:
    """The model's own tokenizer; what it lacks is the same in all of Stable Diffusion."""
    folder.mkdir(parents=True)
    own = description.home / folder.name
    published = MODELS / base_of(description.family) / folder.name
    source = own if own.is_dir() else published
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    if not any((folder / name).is_file() for name in ("vocab.json", "tokenizer.json")):
        for name in VOCABULARY:
            shutil.copyfile(MODELS / "sd15" / "tokenizer" / name, folder / name)


def _write_json(path: Path, content: Config) -> None:
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def _size(
    weights: Mapping[Component, Mapping[str, LazyTensor]], extras: Mapping[str, LazyTensor]
) -> int:
    return sum(map(bytes_of, weights.values())) + bytes_of(extras) + SMALL_FILES


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
