"""Tells what any model file or folder is, at once: from its header, for people and for programs."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.model_files import DESCRIPTIONS, NAMES, inspect_model, inspect_table
from onetrainer.model_files.adapters import Adapter, adapter_of
from onetrainer.model_files.embeddings import Embedding, embeddings_of
from onetrainer.tensor_files import read_table

LONGEST_VALUE = 200
"""Characters of metadata that are printed; the rest is counted."""
_PICTURES = ("modelspec.thumbnail", "ssmd_cover_images", "thumbnail")
_TAGS = "ss_tag_frequency"
_TOP_TAGS = 10
_FORMS: Mapping[str, str] = {
    "safetensors": "safetensors",
    "pickle": "a file of torch.save (pickle), without code",
    "folder": "a diffusers folder",
}
_PREDICTIONS = {"epsilon": "noise (epsilon)", "v_prediction": "velocity (v_prediction)"}


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
    missing: Sequence[str]
    adapter: Adapter | None
    embeddings: Sequence[Embedding]
    metadata: Mapping[str, str]


def describe(path: Path) -> Description:
    """What a file or folder is. Raises UserError if it cannot be read."""
    try:
        table = read_table(path) if path.is_file() else None
        model = inspect_table(table) if table else inspect_model(path)
        size = sum(file.stat().st_size for file in _files(path))
        adapter = adapter_of(table) if table and model.kind == "lora" else None
    except OSError as error:
        raise UserError(
            f"{path}: this cannot be read ({error.strerror})",
            remedy="Check the path and the rights to read it",
        ) from error
    return Description(
        name=path.name or str(path),
        kind=model.kind,
        what=DESCRIPTIONS[model.kind],
        form=table.format if table else "folder",
        made_for=model.made_for or "",
        size=size,
        tensors=len(table.entries) if table else 0,
        precision=model.precision,
        prediction=model.prediction or "",
        prediction_told_by=model.told_by,
        zero_terminal_snr=model.zero_terminal_snr,
        has_ema=model.has_ema,
        missing=model.missing,
        adapter=adapter,
        embeddings=embeddings_of(table, model) if table else (),
        metadata=_told(table.metadata) if table else {},
    )


def lines(description: Description) -> list[str]:
    """The description in words, a line for each thing that there is to tell."""
    found = description
    size = _amount(found.size) + (f", {found.tensors} tensors" if found.tensors else "")
    facts = [
        ("Size", size),
        ("Form", _FORMS[found.form]),
        ("Precision", found.precision),
        ("Made for", NAMES.get(found.made_for, "")),
        ("Predicts", _prediction(found)),
        ("Zero terminal SNR", {True: "yes", False: "no", None: ""}[found.zero_terminal_snr]),
        ("Averaged weights (EMA)", "yes, besides the others" if found.has_ema else ""),
        ("Missing", ", ".join(found.missing)),
        *(found.adapter.facts() if found.adapter else []),
        *(("Embedding", embedding.words()) for embedding in found.embeddings),
    ]
    metadata = [f"  {key}: {_short(key, value)}" for key, value in found.metadata.items()]
    told = [
        f"{found.name}: {found.what}",
        *(f"  {label}: {value}" for label, value in facts if value),
        *(["Metadata:", *metadata] if metadata else []),
    ]
    # Names and metadata are the file's: a terminal would obey what is not printable in them.
    return ["".join(sign if sign.isprintable() else " " for sign in line) for line in told]


def _prediction(found: Description) -> str:
    if not found.prediction:
        return ""
    return f"{_PREDICTIONS[found.prediction]}, as {found.prediction_told_by} says"


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]


def _told(metadata: Mapping[str, str]) -> dict[str, str]:
    return {
        key: f"(pictures, {len(value)} characters)" if _is_picture(key, value) else value
        for key, value in sorted(metadata.items())
    }


def _is_picture(key: str, value: str) -> bool:
    return bool(value) and (key in _PICTURES or value.startswith("data:image/"))


def _short(key: str, value: str) -> str:
    """The value in one line of bounded length."""
    if key == _TAGS and (tags := _tag_counts(value)):
        top = ", ".join(f"{tag} ({count})" for tag, count in tags.most_common(_TOP_TAGS))
        rest = len(tags) - _TOP_TAGS
        return top + (f" and {rest} more" if rest > 0 else "")
    line = " ".join(value[: 2 * LONGEST_VALUE].split())
    if len(value) <= LONGEST_VALUE:
        return line
    return f"{line[:LONGEST_VALUE]} … ({len(value)} characters)"


def _tag_counts(value: str) -> Counter[str]:
    """How often each tag stands in the captions of all folders; empty if that is not told so."""
    try:
        folders = json.loads(value)
    except (ValueError, RecursionError):
        return Counter()
    counts: Counter[str] = Counter()
    for tags in folders.values() if isinstance(folders, dict) else ():
        for tag, count in tags.items() if isinstance(tags, dict) else ():
            counts[tag.strip()] += count if isinstance(count, int) else 0
    return counts


def _amount(size: int) -> str:
    for unit, one in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= one:
            return f"{size / one:.3g} {unit}"
    return f"{size} bytes"
