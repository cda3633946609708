"""The command `onetrainer show`, which describes model files, runs and images from headers."""

import argparse
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from onetrainer.cli.screen import print_result
from onetrainer.cli.show_metadata import metadata_lines, readable_metadata
from onetrainer.cli.show_runs import Description, image_at, is_image, run_at
from onetrainer.errors import EXIT_USER, UserError
from onetrainer.families.registry import FAMILIES, FAMILY_LABELS, family_spec
from onetrainer.messages.formatting import format_size
from onetrainer.model_files.adapters import adapter_of
from onetrainer.model_files.embeddings import embeddings_of
from onetrainer.model_files.inspection import inspect_model, inspect_table
from onetrainer.model_files.kinds import DESCRIPTIONS, NAMES, ModelFile
from onetrainer.tensor_files.table import read_table

_FORMATS: Mapping[str, str] = {
    "safetensors": "safetensors",
    "pickle": "a file of torch.save (pickle); none of its code is run",
    "folder": "a diffusers folder",
}
_PREDICTIONS = {"epsilon": "noise (epsilon)", "v_prediction": "velocity (v_prediction)"}
_UNUSUAL = (
    "unusual; single files can be opened only in the published sizes, so save it as a diffusers"
    " folder (output.model_format) to use it"
)
# Models without a UNet, which have no prediction type.
_WITHOUT_PREDICTION = ("lora", "embedding", "vae", "text-encoder")


def show(options: argparse.Namespace) -> int:
    """Describe files from their headers; an unreadable one does not stop the others."""
    found, errors = [], 0
    for path in options.file:
        try:
            found.append(describe(path, everything=options.all))
        except UserError as error:
            sys.stderr.write(f"{error}\n")
            errors += 1
    documents = [description.document for description in found]
    texts = ["\n".join(description.lines) for description in found]
    if len(options.file) > 1 or not found:
        is_json = options.json and len(options.file) > 1
        code = print_result(documents, ["\n\n".join(texts)] if texts else [], is_json=is_json)
    else:
        code = print_result(documents[0], texts, is_json=options.json)
    return EXIT_USER if errors else code


def describe(path: Path, *, everything: bool = False) -> Description:
    """Describe a model, a component, a run or an image. everything: With all metadata.

    Raises UserError if there is nothing at the path, or it cannot be read or recognized.
    """
    try:
        if not path.exists():
            raise UserError(
                f"{path}: no such file or folder",
                remedy="Check the path, and quote spaces in it",
            )
        found = run_at(path)
        if found is None and path.is_file() and is_image(path):
            found = image_at(path)
        if found is None:
            found = _model_at(path, everything=everything)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror})",
            remedy="Check the path and its permissions",
        ) from error
    # Names and metadata come from the file, and may contain terminal control characters.
    lines = ["".join(char if char.isprintable() else " " for char in text) for text in found.lines]
    return Description(found.document, lines)


def _model_at(path: Path, *, everything: bool) -> Description:
    table = read_table(path) if path.is_file() else None
    model = inspect_table(table) if table else inspect_model(path)
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    adapter = adapter_of(table) if table and model.kind == "lora" else None
    embeddings = embeddings_of(table, model) if table else []
    name, tensors = path.name or str(path), len(table.entries) if table else 0
    what = f"{adapter.title()}, not a complete model" if adapter else DESCRIPTIONS[model.kind]
    form = table.format if table else "folder"
    metadata = readable_metadata(table.metadata) if table else {}
    document = {
        "name": name,
        "kind": model.kind,
        "what": what,
        "form": form,
        "made_for": model.made_for or "",
        "size": size,
        "tensors": tensors,
        "precision": model.precision,
        "prediction": model.prediction or "",
        "prediction_source_text": model.prediction_source,
        "zero_terminal_snr": model.zero_terminal_snr,
        "has_ema": model.has_ema,
        "has_unusual_size": model.has_unusual_size,
        "missing": model.missing,
        "problems": dict(model.problems),
        "adapter": adapter and asdict(adapter),
        "embeddings": [asdict(embedding) for embedding in embeddings],
        "metadata": metadata,
    }
    count = f", {tensors} tensor{'s' * (tensors != 1)}" if tensors else ""
    facts = [
        ("Size", format_size(size) + count),
        ("Format", _FORMATS[form]),
        *_model_facts(model, name),
        *(adapter.facts() if adapter else []),
        *(("Embedding", embedding.summary()) for embedding in embeddings),
    ]
    shown = metadata_lines(metadata, everything=everything)
    return Description(
        document,
        [
            f"{name}: {what}",
            *(f"  {label}: {value}" for label, value in facts if value),
            *(["Metadata:", *shown] if shown else []),
        ],
    )


def _model_facts(model: ModelFile, name: str) -> Iterable[tuple[str, str]]:
    yield "Precision", model.precision
    made_for = NAMES.get(model.made_for or "", "")
    if model.kind == "vae" and model.made_for:  # some families share one
        of = family_spec(model.made_for).vae_architecture
        bases = [spec for spec in FAMILIES if not spec.base]
        made_for = " and ".join(s.label for s in bases if s.vae_architecture == of) or made_for
    yield "Made for", made_for
    yield "Component sizes", _UNUSUAL if model.has_unusual_size else ""
    if model.kind not in _WITHOUT_PREDICTION:
        prediction = ""
        if model.prediction:
            prediction = f"{_PREDICTIONS[model.prediction]}, from {model.prediction_source}"
        elif model.kind in FAMILY_LABELS and family_spec(model.kind).several_predictions:
            spec = family_spec(model.kind)
            sides = ", ".join(f"{spec.side_of(p)}-px models: {p}" for p in spec.several_predictions)
            prediction = f"unknown; set model.prediction to train it ({sides})"
        elif model.kind in FAMILY_LABELS:
            prediction = f"{_PREDICTIONS['epsilon']}, the default, as the file does not say"
        yield "Prediction", prediction
        yield "Zero terminal SNR", {None: "", True: "yes", False: "no"}[model.zero_terminal_snr]
    if model.has_ema:
        ema = "yes, and the usual ones"
        if "UNet" in model.missing:
            ema = f"yes, and no others; `convert --ema {name} OUT` makes a model from them"
        yield "EMA weights", ema
    yield "Missing", ", ".join(model.missing)
    yield from (("Not whole", f"{label}: {problem}") for label, problem in model.problems)
