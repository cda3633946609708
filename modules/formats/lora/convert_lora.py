"""Conversion of a LoRA file to another naming or precision, optionally bundling embeddings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Size, Tensor

from modules.formats.embeddings.convert_embedding import require_safetensors
from modules.formats.embeddings.embedding_file import bundled_tensors, read_embeddings_by_token
from modules.formats.files.files import refuse_existing
from modules.formats.files.tensor_source import PRECISIONS, open_tensors
from modules.formats.lora.lora_file import LoraFile, read_lora, write_lora
from modules.formats.lora.lora_keys import AdapterTensors, rank_of
from modules.formats.lora.lora_names import LayerNames, Naming
from modules.formats.lora.lora_readers import reader_notes
from modules.formats.lora.standard_names import standard_names
from onetrainer.config.run.model import FamilyName
from onetrainer.errors import UserError
from onetrainer.families.registry import any_base, base_of, families_with
from onetrainer.jobs.convert_request import Precision
from onetrainer.messages.formatting import format_size
from onetrainer.model_files.adapter_family import family_of_adapter, is_for_other_architecture
from onetrainer.model_files.adapter_keys import ALPHA, is_adapter_key, is_text_encoder_key, split
from onetrainer.model_files.adapter_layers import adapter_layers
from onetrainer.model_files.inspection import inspect_model
from onetrainer.model_files.kinds import NAMES, Kind
from onetrainer.model_files.tensors import family_of_vectors

Shapes = Mapping[str, Size]


def convert_lora(
    source: Path,
    target: Path,
    *,
    naming: Naming,
    family: FamilyName | None,
    precision: Precision,
    overwrite: bool,
    bundle: Sequence[str] = (),
) -> list[str]:
    """Convert a LoRA file and return notes for people.

    Metadata and bundled embeddings are kept; hashes are computed again.

    family: None to detect it.
    bundle: Embedding files to add to those of the file.

    Raises:
        UserError: For files that are no LoRA, that are for an unknown or another model family, and
            for adapters that the naming does not support.
    """
    require_safetensors(target, "LoRAs")
    # Sources are never overwritten, even if overwriting is allowed.
    if target.resolve() in [Path(path).resolve() for path in bundle]:
        raise UserError(
            f"{target}: this file is to be bundled",
            "Expected another path for the output",
            "Choose another name",
        )
    if not overwrite:
        refuse_existing(target)
    names, file = open_lora(source, family)
    base = names.base
    file, notes = _with_bundle(file, base, bundle)
    summary = write_described(
        target, file, names, naming=naming, precision=precision, overwrite=overwrite
    )
    readers = reader_notes(file.layers.values(), naming)
    return [summary, *_unknown_notes(file, base), *notes, *readers]


def write_described(
    target: Path,
    file: LoraFile,
    names: LayerNames,
    *,
    naming: Naming,
    precision: Precision,
    overwrite: bool,
) -> str:
    """Write a LoRA with the hashes of its tensors, and return a line about the file."""
    write_lora(
        target,
        file,
        names,
        naming=naming,
        dtype=PRECISIONS[precision],
        overwrite=overwrite,
        hashes=True,
    )
    return _summary(target, file, naming)


def open_lora(source: Path, family: FamilyName | None) -> tuple[LayerNames, LoraFile]:
    """Read a LoRA file of any naming; return it with the names of its family's layers.

    family: None to detect it.

    Raises:
        UserError: For files that are no LoRA, and for those of an unknown or another model family.
    """
    with open_tensors(source) as reader:
        shapes = {key: reader.shape(key) for key in reader.names}
        metadata = dict(reader.metadata)
        found = adapter_layers({key: reader.entry(key) for key in reader.names})
    if not found.layers:  # of no kind that tells a family
        found.require_sound(source)
    base = _base(source, shapes, metadata, family)
    names = standard_names(base)
    file = read_lora(source, names)
    _require_layers(source, file, base if family else None)
    return names, file


def _base(
    path: Path, shapes: Shapes, metadata: Mapping[str, str], family: FamilyName | None
) -> str:
    """Return the base that the file is for."""
    if not any(map(is_adapter_key, shapes)):
        raise UserError(
            f"{path.name}: the file contains no adapter",
            "Expected a LoRA file",
            "Choose another file; `onetrainer show` says what this one is",
        )
    # The chosen family overrides metadata, which other programs may have copied from elsewhere.
    detected = family_of_adapter(shapes, {} if family else metadata)
    known = next(
        (base for base in families_with(lambda spec: not spec.base) if base == detected), None
    )
    if (detected is not None and known is None) or is_for_other_architecture(shapes):
        raise _other_family_error(path, detected)
    if family is None:
        if known is None:
            raise _unclear_error(path, shapes)
        return known
    base = base_of(family)
    if known not in (None, base):
        raise UserError(
            f"{path.name}: this LoRA is for {NAMES[known]}, not for {NAMES[base]}",
            "Expected the family that it was trained on",
            f'Choose "{known}", or leave the family out',
        )
    return base


def _require_layers(path: Path, file: LoraFile, chosen: str | None) -> None:
    """Raise UserError if none of the layers is of the base.

    Some text encoders are shared by several model families, so their layers alone are no proof.

    chosen: The base, if a person has chosen it.
    """
    strange = [key for key in file.unknown if is_adapter_key(key) and not is_text_encoder_key(key)]
    has_unet = any(layer.component == "unet" for layer in file.layers)
    if not file.layers or (strange and not has_unet):
        if chosen is None:
            raise _other_family_error(path)
        raise UserError(
            f"{path.name}: this LoRA has no layers of {NAMES[chosen]}",
            "Expected the family that it was trained on",
            "Choose another --family, or leave it out",
        )


def _other_family_error(path: Path, kind: Kind | None = None) -> UserError:
    family = NAMES[kind] if kind else "another model family, such as Flux"
    return UserError(
        f"{path.name}: this is a LoRA for {family}",
        f"Expected a LoRA for {any_base(lambda spec: spec.series)}",
        "Choose another file; others cannot be converted",
    )


def _unclear_error(path: Path, shapes: Shapes) -> UserError:
    layers = [found[0] for key in shapes if (found := split(key))]
    fitting = [
        base
        for base in families_with(lambda spec: not spec.base)
        if any(standard_names(base).find(name) for name in layers)
    ]
    if not fitting:
        return _other_family_error(path)
    return UserError(
        f"{path.name}: it cannot be detected which model family this LoRA was trained on",
        "Expected the family of its base model",
        f"Choose it: --family, one of {', '.join(fitting)}",
    )


def _with_bundle(file: LoraFile, base: str, bundle: Sequence[str]) -> tuple[LoraFile, list[str]]:
    """Return the file with the embeddings of other files, and notes for people."""
    embeddings: dict[str, Mapping[str, Tensor]] = dict(file.embeddings)
    notes = []
    for path in map(Path, bundle):
        for token, embedding in read_embeddings_by_token(path).items():
            members = bundled_tensors(embedding)
            kind = family_of_vectors({key: rows.shape for key, rows in members.items()})
            if kind not in (None, base):
                raise UserError(
                    f"{path.name}: this embedding is for {NAMES[kind]}, and the LoRA for"
                    f" {NAMES[base]}",
                    "Expected embeddings for the LoRA's family",
                    "Leave it out, or choose another one",
                )
            if token in embeddings:
                raise UserError(
                    f'{path.name}: another embedding already uses the token "{token}"',
                    "Expected a different token for each embedding",
                    "Rename the file, or leave it out",
                )
            embeddings[token] = members
            vectors = "vector" if embedding.length == 1 else "vectors"
            notes.append(f'Bundled "{token}", an embedding of {embedding.length} {vectors}.')
    return replace(file, embeddings=embeddings), notes


def _summary(target: Path, file: LoraFile, naming: Naming) -> str:
    """Summarize the result: "kohya -> diffusers, fp16, 721 kB, 192 layers"."""
    count = len(file.layers)
    facts = [
        naming if naming == file.naming else f"{file.naming} -> {naming}",
        inspect_model(target).precision,
        format_size(target.stat().st_size),
        f"{count} layer{'s' if count != 1 else ''}",
    ]
    summary = ", ".join(filter(None, facts))
    if naming == "diffusers" and any(_has_other_alpha(tensors) for tensors in file.layers.values()):
        summary += "; alpha / rank is multiplied into the weights, as this naming has no alpha"
    return summary


def _has_other_alpha(tensors: AdapterTensors) -> bool:
    """Return whether a layer's alpha differs from its rank, so that it scales the weights."""
    rank = rank_of(tensors)
    return ALPHA in tensors and rank is not None and float(tensors[ALPHA]) != rank


def _unknown_notes(file: LoraFile, base: str) -> list[str]:
    if not file.unknown:
        return []
    first = min(file.unknown)
    count = len(file.unknown)
    belong = "tensor belongs" if count == 1 else "tensors belong"
    kept = "is kept under its name" if count == 1 else "are kept under their names, first"
    return [f"{count} {belong} to no layer of {NAMES[base]} and {kept}: {first}"]
