"""What a conversion is asked to do, and whether that fits what its source is."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from onetrainer.config.base.section import Section
from onetrainer.config.run.model import FamilyName, PredictionChoice, ZeroSnrChoice
from onetrainer.errors import UserError
from onetrainer.model_files import DESCRIPTIONS, FAMILIES, ModelFile, inspect_model, require_vae
from onetrainer.tensor_files.table import PICKLE_SUFFIXES

Precision = Literal["keep", "fp32", "fp16", "bf16"]
ModelFormat = Literal["diffusers", "original"]

MODEL_FORMATS: Mapping[ModelFormat, str] = MappingProxyType(
    {
        "diffusers": "a folder with a file for each part of the model",
        "original": "one .safetensors file in the original layout",
    }
)

SUFFIX = ".safetensors"
_PLACES, _ALWAYS = ("source", "target"), ("precision", "overwrite")
_OF_MODELS = (*_ALWAYS, "to", "family", "prediction", "zero_terminal_snr", "vae", "ema")
_OF_LORAS = (*_ALWAYS, "to", "family", "bundle")
_OF_EMBEDDINGS = (*_ALWAYS, "name")


class ConvertRequest(Section):
    """One file or folder to be made of another."""

    source: str
    """The file or folder to read; it is never changed."""

    target: str
    """The file or folder to write."""

    to: str = ""
    """The format to write, in its own word; empty means what the target's name says."""

    precision: Precision = "keep"
    """The number format of the weights; "keep" leaves each as it is."""

    family: FamilyName | None = None
    """What the source is; None means what its tensors say."""

    prediction: PredictionChoice = "auto"
    """What the model predicts, where the source does not tell."""

    zero_terminal_snr: ZeroSnrChoice = "auto"
    """Whether the noise schedule ends in pure noise, where the source does not tell."""

    vae: str = ""
    """A file or folder whose VAE takes the place of the model's own; empty for its own."""

    ema: bool = False
    """Takes the averaged weights of the UNet, if the file has them."""

    overwrite: bool = False
    """Replaces what is at the target's place."""

    name: str = ""
    """The name to give an embedding, empty for its own; of a file that holds several embeddings,
    or a LoRA and embeddings, the name of the one to take out."""

    bundle: tuple[str, ...] = ()
    """Files of embeddings that come into a LoRA's file."""


def examine(request: ConvertRequest) -> ModelFile:
    """What the source is; only headers are read, nothing is written.

    Raises UserError if it is nothing that can be converted, or the request does not fit it.
    """
    source, target = Path(request.source), Path(request.target)
    found = inspect_model(source)
    _refuse_overlap(target, [source, *map(Path, filter(None, (request.vae, *request.bundle)))])
    what, known = _kind_and_options(found, request)
    asked = request.model_dump(exclude_defaults=True)
    foreign = [name for name in asked if name not in (*_PLACES, *known)]
    if foreign:
        raise UserError(
            f"{source.name}: this is {what}; {_as_options(foreign)} cannot be chosen for it",
            f"The options for it are {_as_options(known)}",
            "Leave out the others",
        )
    if found.kind in ("lora", "embedding"):
        _require_suffix(target)
    else:
        model_format(target, request.to)
    family = request.family or next((name for name in FAMILIES if name == found.kind), None)
    if request.vae and family:
        require_vae(inspect_model(Path(request.vae)), family)
    return found


def model_format(target: Path, word: str) -> ModelFormat:
    """A base model's format by its word, or by the target's name.

    Raises UserError if there is no such format, or the name does not fit it.
    """
    if word and word not in MODEL_FORMATS:
        raise UserError(
            f'"{word}" is no format for a base model',
            "One of " + ", ".join(f'"{name}" ({text})' for name, text in MODEL_FORMATS.items()),
            "Choose one of these, or leave it out",
        )
    is_file = target.suffix.lower() == SUFFIX
    if word == "diffusers" and is_file:
        raise UserError(f"{target.name}: a folder's name was expected", remedy="Leave out the end")
    if word == "original" or target.suffix.lower() in PICKLE_SUFFIXES:
        _require_suffix(target)
    return "original" if is_file else "diffusers"


def _require_suffix(target: Path) -> None:
    if target.suffix.lower() != SUFFIX:
        is_pickle = target.suffix.lower() in PICKLE_SUFFIXES
        raise UserError(
            f"{target.name}: single files are written as {SUFFIX} only",
            f"A name that ends in {SUFFIX} was expected",
            f"Use {target.stem if is_pickle else target.name}{SUFFIX}",
        )


def _kind_and_options(found: ModelFile, request: ConvertRequest) -> tuple[str, Sequence[str]]:
    """What is converted, in words, and the options there are for it."""
    what = DESCRIPTIONS[found.kind].partition(",")[0]
    match found.kind:
        case "lora" if request.name:
            return "an embedding in a LoRA's file", _OF_EMBEDDINGS
        case "lora":
            return what, _OF_LORAS
        case "embedding":
            return what, _OF_EMBEDDINGS
        case kind if kind in FAMILIES or request.family:
            return what, _OF_MODELS
    raise UserError(
        f"{found.path.name}: this is {DESCRIPTIONS[found.kind]}",
        "A whole model, a LoRA or an embedding was expected",
        "Choose another file",
    )


def _as_options(names: Sequence[str]) -> str:
    return ", ".join("--" + name.replace("_", "-") for name in names)


def _refuse_overlap(target: Path, sources: Sequence[Path]) -> None:
    """No source is ever written, not even when overwriting is allowed, nor what it links to."""
    place = target.resolve()
    parts = [part for source in sources for part in (source, *_links_in(source))]
    for kept in parts:
        whole = kept.resolve()
        if whole == place or place in whole.parents or whole in place.parents:
            raise UserError(
                f"{target}: this is where {kept.name} itself is",
                "A place of its own was expected for what is written",
                "Choose another name",
            )


def _links_in(folder: Path) -> list[Path]:
    """The links in a model's folder and in its components' folders."""
    if not folder.is_dir():
        return []
    return [path for pattern in ("*", "*/*") for path in folder.glob(pattern) if path.is_symlink()]
