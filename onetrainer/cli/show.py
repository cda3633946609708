"""Tells what any model file or folder is, at once: from its header, for people and for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from onetrainer.cli.show_metadata import all_lines, short_lines, told
from onetrainer.cli.show_places import (
    Image,
    Run,
    checkpoint_file_at,
    image_at,
    is_image,
    run_at,
)
from onetrainer.errors import UserError
from onetrainer.messages.byte_sizes import format_size
from onetrainer.model_files import DESCRIPTIONS, FAMILIES, NAMES, inspect_model, inspect_table
from onetrainer.model_files.adapters import Adapter, adapter_of
from onetrainer.model_files.embeddings import Embedding, embeddings_of
from onetrainer.tensor_files import read_table

_FORMS: Mapping[str, str] = {
    "safetensors": "safetensors",
    "pickle": "a file of torch.save (pickle); nothing in it is run here",
    "folder": "a diffusers folder",
}
_PREDICTIONS = {"epsilon": "noise (epsilon)", "v_prediction": "velocity (v_prediction)"}
_NOT_TOLD = (
    "not told; set model.prediction when you train it"
    " (768-px models: v_prediction, 512-px base: epsilon)"
)
_UNUSUAL = (
    "unusual; a single file can be opened only in the published sizes, so it must be saved as a"
    " diffusers folder (output.model_format) to be used"
)
# Parts of models, which predict nothing by themselves.
_PREDICT_NOTHING = ("lora", "embedding", "vae", "text-encoder")


@dataclass(frozen=True)
class Description:
    """What was found; all of it is made of what JSON knows.

    kind, precision, missing: as in ModelFile. form: "safetensors", "pickle" or "folder".
    made_for: the kind of model that a part belongs to, "" for a whole one and if nothing tells.
    size: bytes. tensors: how many, 0 for a folder. prediction: "" if nothing tells it, and
    zero_terminal_snr None. metadata: sorted; of pictures only the length.
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
    prediction_told_by: str
    zero_terminal_snr: bool | None
    has_ema: bool
    has_unusual_size: bool
    missing: Sequence[str]
    adapter: Adapter | None
    embeddings: Sequence[Embedding]
    metadata: Mapping[str, str]


Found = Description | Run | Image


def look_at(path: Path) -> Found:
    """What is at a path: a model or a part of one, a run, a picture. Raises UserError if none."""
    try:
        if not path.exists():
            raise UserError(
                f"{path}: there is no such file or folder",
                remedy="Check the path, and quote spaces in it",
            )
        if path.is_dir() and (run := run_at(path)):
            return run
        if path.is_file() and (run := checkpoint_file_at(path)):
            return run
        if path.is_file() and is_image(path):
            return image_at(path)
    except OSError as error:
        raise _cannot_read(path, error) from error
    return describe(path)


def describe(path: Path) -> Description:
    """What a file or folder is. Raises UserError if it cannot be read."""
    try:
        table = read_table(path) if path.is_file() else None
        model = inspect_table(table) if table else inspect_model(path)
        size = sum(file.stat().st_size for file in _files(path))
        adapter = adapter_of(table) if table and model.kind == "lora" else None
    except OSError as error:
        raise _cannot_read(path, error) from error
    return Description(
        name=path.name or str(path),
        kind=model.kind,
        what=f"{adapter.title()}, not a whole model" if adapter else DESCRIPTIONS[model.kind],
        form=table.format if table else "folder",
        made_for=model.made_for or "",
        size=size,
        tensors=len(table.entries) if table else 0,
        precision=model.precision,
        prediction=model.prediction or "",
        prediction_told_by=model.told_by,
        zero_terminal_snr=model.zero_terminal_snr,
        has_ema=model.has_ema,
        has_unusual_size=model.has_unusual_size,
        missing=model.missing,
        adapter=adapter,
        embeddings=embeddings_of(table, model) if table else (),
        metadata=told(table.metadata) if table else {},
    )


def lines(found: Found, *, everything: bool = False) -> list[str]:
    """What was found in words, a line for each thing; everything: all of the metadata too."""
    match found:
        case Description():
            words = _description_lines(found, everything=everything)
        case Run() | Image():
            words = found.lines()
    # Names and metadata are the file's: a terminal would obey what is not printable in them.
    return ["".join(sign if sign.isprintable() else " " for sign in line) for line in words]


def _description_lines(found: Description, *, everything: bool) -> list[str]:
    count = f", {found.tensors} tensor{'s' if found.tensors != 1 else ''}" if found.tensors else ""
    facts = [
        ("Size", format_size(found.size) + count),
        ("Form", _FORMS[found.form]),
        ("Precision", found.precision),
        ("Made for", _made_for(found)),
        ("Size of its parts", _UNUSUAL if found.has_unusual_size else ""),
        ("Predicts", _prediction(found)),
        ("Zero terminal SNR", _zero_snr(found)),
        ("Averaged weights (EMA)", _averages(found)),
        ("Missing", ", ".join(found.missing)),
        *(found.adapter.facts() if found.adapter else []),
        *(("Embedding", embedding.words()) for embedding in found.embeddings),
    ]
    metadata = (all_lines if everything else short_lines)(found.metadata)
    return [
        f"{found.name}: {found.what}",
        *(f"  {label}: {value}" for label, value in facts if value),
        *(["Metadata:", *metadata] if metadata else []),
    ]


def _made_for(found: Description) -> str:
    # SD 2 took over the VAE of SD 1.x.
    if found.kind == "vae" and found.made_for in ("sd15", "sd2"):
        return f"{NAMES['sd15']} and {NAMES['sd2']}"
    return NAMES.get(found.made_for, "")


def _prediction(found: Description) -> str:
    if found.kind in _PREDICT_NOTHING:
        return ""
    if found.prediction:
        return f"{_PREDICTIONS[found.prediction]}, as {found.prediction_told_by} says"
    if found.kind not in FAMILIES:
        return ""
    if found.kind == "sd2":
        return _NOT_TOLD
    return f"{_PREDICTIONS['epsilon']}, as nothing in it says otherwise"


def _zero_snr(found: Description) -> str:
    if found.kind in _PREDICT_NOTHING or found.zero_terminal_snr is None:
        return ""
    return "yes" if found.zero_terminal_snr else "no"


def _averages(found: Description) -> str:
    if not found.has_ema:
        return ""
    if "UNet" in found.missing:
        return f"yes, and no others; `convert --ema {found.name} OUT` makes a model of them"
    return "yes, besides the others"


def _cannot_read(path: Path, error: OSError) -> UserError:
    return UserError(
        f"{path}: this cannot be read ({error.strerror})",
        remedy="Check the path and the rights to read it",
    )


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
