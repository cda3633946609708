"""A LoRA file in another naming or another precision, with embeddings beside it if wished."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Size, Tensor

from modules.formats.embeddings.convert_embedding import require_safetensors
from modules.formats.embeddings.embedding_file import bundled_tensors, read_embeddings_by_token
from modules.formats.files.files import refuse_existing
from modules.formats.files.tensor_source import PRECISIONS, open_tensors
from modules.formats.lora.lora_file import LoraFile, read_lora, write_lora
from modules.formats.lora.lora_keys import Kinds, rank_of
from modules.formats.lora.lora_names import LORA_COMPONENTS, Naming
from modules.formats.lora.standard_names import standard_names
from onetrainer.config.run.model import Base, FamilyName, base_of
from onetrainer.errors import UserError
from onetrainer.jobs.convert_request import Precision
from onetrainer.messages.byte_sizes import format_size
from onetrainer.model_files import inspect_model
from onetrainer.model_files.adapter_family import family_of_adapter, is_for_others
from onetrainer.model_files.adapter_keys import ALPHA, is_of_adapter, is_of_text_encoder, split
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
    """Writes a LoRA file anew and gives notes for people.

    family: None means that the file tells. bundle: files of embeddings that come into the new one,
    beside those that are there. Metadata and bundled embeddings are kept, hashes are computed anew.
    Raises UserError for files that are no LoRA, that are for another kind of model or do not tell
    for which, for a family that is not the file's, and for kinds of adapters that the naming has no
    words for.
    """
    require_safetensors(target, "LoRAs")
    _refuse_overlap(target, bundle)
    if not overwrite:
        refuse_existing(target)
    with open_tensors(source) as reader:
        shapes = {key: reader.shape(key) for key in reader.names}
        metadata = dict(reader.metadata)
    base = _base(source, shapes, metadata, family)
    names = standard_names(base)
    file = read_lora(source, names)
    _require_layers(source, file, base if family else None)
    file, notes = _with_bundle(file, base, bundle)
    write_lora(
        target,
        file,
        names,
        naming=naming,
        dtype=PRECISIONS[precision],
        overwrite=overwrite,
        hashes=True,
    )
    return [_summary(target, file, naming), *_unknown_notes(file, base), *notes]


def _refuse_overlap(target: Path, bundle: Sequence[str]) -> None:
    """What is read is never written over, not even when overwriting is allowed."""
    if target.resolve() in [Path(path).resolve() for path in bundle]:
        raise UserError(
            f"{target}: this is what is to be bundled",
            "A place of its own was expected for what is written",
            "Choose another name",
        )


def _base(
    path: Path, shapes: Shapes, metadata: Mapping[str, str], family: FamilyName | None
) -> Base:
    """The base whose names are meant."""
    if not any(map(is_of_adapter, shapes)):
        raise UserError(
            f"{path.name}: no adapter in it",
            "A LoRA file was expected",
            "Choose another file; `onetrainer show` tells what this one is",
        )
    # What is chosen counts for more than metadata, which programs copy carelessly.
    told = family_of_adapter(shapes, {} if family else metadata)
    known = next((base for base in LORA_COMPONENTS if base == told), None)
    if (told is not None and known is None) or is_for_others(shapes):
        raise _other_kind(path, told)
    if family is None:
        if known is None:
            raise _unclear(path, shapes)
        return known
    base = base_of(family)
    if known not in (None, base):
        raise UserError(
            f"{path.name}: this LoRA is for {NAMES[known]}, not for {NAMES[base]}",
            "The family that it was trained on was expected",
            f'Choose "{known}", or leave the family out',
        )
    return base


def _require_layers(path: Path, file: LoraFile, chosen: Base | None) -> None:
    """Some text encoders are several kinds' of models, so that their layers alone tell nothing.

    chosen: the base, if a person has named it.
    """
    strange = [key for key in file.unknown if is_of_adapter(key) and not is_of_text_encoder(key)]
    has_unet = any(layer.component == "unet" for layer in file.layers)
    if not file.layers or (strange and not has_unet):
        if chosen is None:
            raise _other_kind(path)
        raise UserError(
            f"{path.name}: none of this LoRA's layers is one of {NAMES[chosen]}",
            "The family that it was trained on was expected",
            "Choose another --family, or leave it out",
        )


def _other_kind(path: Path, kind: Kind | None = None) -> UserError:
    words = NAMES[kind] if kind else "another kind of model, such as Flux"
    return UserError(
        f"{path.name}: this is a LoRA for {words}",
        "A LoRA for SD 1.x, SD 2.x or SDXL was expected",
        "Choose another file; nothing else is converted here",
    )


def _unclear(path: Path, shapes: Shapes) -> UserError:
    layers = [found[0] for key in shapes if (found := split(key))]
    fitting = [
        base for base in LORA_COMPONENTS if any(standard_names(base).find(name) for name in layers)
    ]
    if not fitting:
        return _other_kind(path)
    return UserError(
        f"{path.name}: nothing in this LoRA clearly tells what it was trained on",
        "The family of its base model was expected",
        f"Name it: --family, one of {', '.join(fitting)}",
    )


def _with_bundle(file: LoraFile, base: Base, bundle: Sequence[str]) -> tuple[LoraFile, list[str]]:
    """The file with the embeddings of other files, and what a person should know of them."""
    embeddings: dict[str, Mapping[str, Tensor]] = dict(file.embeddings)
    notes = []
    for path in map(Path, bundle):
        for word, embedding in read_embeddings_by_token(path).items():
            members = bundled_tensors(embedding)
            kind = family_of_vectors({key: rows.shape for key, rows in members.items()})
            if kind not in (None, base):
                raise UserError(
                    f"{path.name}: this embedding is for {NAMES[kind]}, and the LoRA for"
                    f" {NAMES[base]}",
                    "Embeddings for the LoRA's own family were expected",
                    "Leave it out, or choose another one",
                )
            if word in embeddings:
                raise UserError(
                    f'{path.name}: there is an embedding called "{word}" already',
                    "A word of its own was expected for each embedding",
                    "Rename the file, or leave it out",
                )
            embeddings[word] = members
            vectors = "vector" if embedding.length == 1 else "vectors"
            notes.append(f'Bundled "{word}", an embedding of {embedding.length} {vectors}.')
    return replace(file, embeddings=embeddings), notes


def _summary(target: Path, file: LoraFile, naming: Naming) -> str:
    """For example "kohya -> diffusers, fp16, 721 kB, 192 layers"."""
    count = len(file.layers)
    facts = [
        naming if naming == file.naming else f"{file.naming} -> {naming}",
        inspect_model(target).precision,
        format_size(target.stat().st_size),
        f"{count} layer{'s' if count != 1 else ''}",
    ]
    told = ", ".join(filter(None, facts))
    if naming == "diffusers" and any(_has_other_alpha(kinds) for kinds in file.layers.values()):
        told += "; alpha / rank is multiplied into the weights, as this naming has no alpha"
    return told


def _has_other_alpha(kinds: Kinds) -> bool:
    """Whether a layer's alpha is other than its rank, so that it changes the weights."""
    rank = rank_of(kinds)
    return ALPHA in kinds and rank is not None and float(kinds[ALPHA]) != rank


def _unknown_notes(file: LoraFile, base: Base) -> list[str]:
    if not file.unknown:
        return []
    first = min(file.unknown)
    count = len(file.unknown)
    they = "tensor belongs" if count == 1 else "tensors belong"
    kept = "is kept under its name" if count == 1 else "are kept under their names, first"
    return [f"{count} {they} to no layer of {NAMES[base]} and {kept}: {first}"]
