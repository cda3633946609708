"""Descriptions of model files and folders, read from their headers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from onetrainer.cli.show_metadata import metadata_lines, readable_metadata
from onetrainer.cli.show_places import (
    ImageDescription,
    RunDescription,
    image_at,
    is_image,
    run_at,
)
from onetrainer.errors import UserError
from onetrainer.messages.words import format_size
from onetrainer.model_files import DESCRIPTIONS, FAMILIES, NAMES, inspect_model, inspect_table
from onetrainer.model_files.adapters import Adapter, adapter_of
from onetrainer.model_files.embeddings import Embedding, embeddings_of
from onetrainer.tensor_files import read_table

_FORMATS: Mapping[str, str] = {
    "safetensors": "safetensors",
    "pickle": "a file of torch.save (pickle); none of its code is run",
    "folder": "a diffusers folder",
}
_PREDICTIONS = {"epsilon": "noise (epsilon)", "v_prediction": "velocity (v_prediction)"}
_UNKNOWN_PREDICTION = (
    "unknown; set model.prediction to train it (768-px models: v_prediction, 512-px base: epsilon)"
)
_UNUSUAL = (
    "unusual; single files can be opened only in the published sizes, so save it as a diffusers"
    " folder (output.model_format) to use it"
)
# Models without a UNet, which have no prediction type.
_WITHOUT_PREDICTION = ("lora", "embedding", "vae", "text-encoder")


@dataclass(frozen=True)
class ModelDescription:
    """The description of a model file or folder, made of JSON types; see ModelFile.

    form: "safetensors", "pickle" or "folder". size: In bytes. tensors: Their number, 0 for a
    folder. metadata: Sorted, with only the length of images.
    """

    name: str
    kind: str
    what: str
    form: str
    made_for: str
    size: int
    tensors: int
    precision: str
    prediction: str
    prediction_source_text: str
    zero_terminal_snr: bool | None
    has_ema: bool
    has_unusual_size: bool
    missing: Sequence[str]
    adapter: Adapter | None
    embeddings: Sequence[Embedding]
    metadata: Mapping[str, str]


Inspected = ModelDescription | RunDescription | ImageDescription


def inspect_path(path: Path) -> Inspected:
    """Describe a model, a component, a run or an image.

    Raises UserError if there is nothing at the path, or it cannot be read or recognized.
    """
    try:
        if not path.exists():
            raise UserError(
                f"{path}: no such file or folder",
                remedy="Check the path, and quote spaces in it",
            )
        if run := run_at(path):
            return run
        if path.is_file() and is_image(path):
            return image_at(path)
    except OSError as error:
        raise _cannot_read(path, error) from error
    return describe(path)


def describe(path: Path) -> ModelDescription:
    """Describe a model file or folder. Raises UserError if it cannot be read."""
    try:
        table = read_table(path) if path.is_file() else None
        model = inspect_table(table) if table else inspect_model(path)
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        size = sum(file.stat().st_size for file in files)
        adapter = adapter_of(table) if table and model.kind == "lora" else None
    except OSError as error:
        raise _cannot_read(path, error) from error
    return ModelDescription(
        name=path.name or str(path),
        kind=model.kind,
        what=f"{adapter.title()}, not a complete model" if adapter else DESCRIPTIONS[model.kind],
        form=table.format if table else "folder",
        made_for=model.made_for or "",
        size=size,
        tensors=len(table.entries) if table else 0,
        precision=model.precision,
        prediction=model.prediction or "",
        prediction_source_text=model.prediction_source,
        zero_terminal_snr=model.zero_terminal_snr,
        has_ema=model.has_ema,
        has_unusual_size=model.has_unusual_size,
        missing=model.missing,
        adapter=adapter,
        embeddings=embeddings_of(table, model) if table else (),
        metadata=readable_metadata(table.metadata) if table else {},
    )


def lines(description: Inspected, *, everything: bool = False) -> list[str]:
    """Return the description as lines of text. everything: Whether to include all metadata."""
    match description:
        case ModelDescription():
            texts = _model_lines(description, everything=everything)
        case RunDescription() | ImageDescription():
            texts = description.lines()
    # Names and metadata come from the file, and may contain terminal control characters.
    return ["".join(char if char.isprintable() else " " for char in text) for text in texts]


def _model_lines(model: ModelDescription, *, everything: bool) -> list[str]:
    tensors = f", {model.tensors} tensor{'s' * (model.tensors != 1)}" if model.tensors else ""
    made_for = NAMES.get(model.made_for, "")
    if model.kind == "vae" and model.made_for in ("sd15", "sd2"):  # they share one VAE
        made_for = f"{NAMES['sd15']} and {NAMES['sd2']}"
    ema = "yes, and the usual ones"
    if "UNet" in model.missing:
        ema = f"yes, and no others; `convert --ema {model.name} OUT` makes a model from them"
    facts = [
        ("Size", format_size(model.size) + tensors),
        ("Format", _FORMATS[model.form]),
        ("Precision", model.precision),
        ("Made for", made_for),
        ("Component sizes", _UNUSUAL if model.has_unusual_size else ""),
        *([] if model.kind in _WITHOUT_PREDICTION else _prediction_facts(model)),
        ("EMA weights", ema if model.has_ema else ""),
        ("Missing", ", ".join(model.missing)),
        *(model.adapter.facts() if model.adapter else []),
        *(("Embedding", embedding.summary()) for embedding in model.embeddings),
    ]
    metadata = metadata_lines(model.metadata, everything=everything)
    return [
        f"{model.name}: {model.what}",
        *(f"  {label}: {value}" for label, value in facts if value),
        *(["Metadata:", *metadata] if metadata else []),
    ]


def _prediction_facts(model: ModelDescription) -> list[tuple[str, str]]:
    prediction = ""
    if model.prediction:
        prediction = f"{_PREDICTIONS[model.prediction]}, from {model.prediction_source_text}"
    elif model.kind == "sd2":
        prediction = _UNKNOWN_PREDICTION
    elif model.kind in FAMILIES:
        prediction = f"{_PREDICTIONS['epsilon']}, the default, as the file does not say"
    zero_snr = {None: "", True: "yes", False: "no"}[model.zero_terminal_snr]
    return [("Prediction", prediction), ("Zero terminal SNR", zero_snr)]


def _cannot_read(path: Path, error: OSError) -> UserError:
    return UserError(
        f"{path}: cannot be read ({error.strerror})",
        remedy="Check the path and its permissions",
    )
