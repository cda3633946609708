"""A LoRA file in another naming or another precision."""

from collections.abc import Mapping
from pathlib import Path

from torch import Size

from modules.formats.files import refuse_existing
from modules.formats.lora_base import base_of_lora, likely_base
from modules.formats.lora_file import LoraFile, read_lora, write_lora
from modules.formats.lora_names import Naming
from modules.formats.standard_names import standard_names
from modules.formats.tensor_source import PRECISIONS, open_tensors
from onetrainer.config.model import Base, FamilyName, base_of
from onetrainer.convert_request import Precision
from onetrainer.errors import UserError


def convert_lora(
    source: Path,
    target: Path,
    *,
    naming: Naming,
    family: FamilyName | None,
    precision: Precision,
    overwrite: bool,
) -> list[str]:
    """Writes a LoRA file anew and gives notes for people.

    family: None means that the file tells. Metadata and bundled embeddings are kept, hashes are
    computed anew. Raises UserError for files that are no LoRA, a family that is not the file's,
    and kinds of adapters that the naming has no words for.
    """
    if not overwrite:
        refuse_existing(target)
    with open_tensors(source) as reader:
        shapes = {name: reader.shape(name) for name in reader.names}
        metadata = dict(reader.metadata)
    base, notes = _base(source, shapes, metadata, family)
    names = standard_names(base)
    file = read_lora(source, names)
    notes += _unknown_notes(file, base)
    write_lora(
        target,
        file,
        names,
        naming=naming,
        dtype=PRECISIONS[precision],
        overwrite=overwrite,
        hashes=True,
    )
    return notes


def _base(
    path: Path, shapes: Mapping[str, Size], metadata: Mapping[str, str], family: FamilyName | None
) -> tuple[Base, list[str]]:
    """The base whose names are meant, and a note where that is a guess."""
    told = base_of_lora(shapes, metadata)
    if family is not None:
        base = base_of(family)
        if told not in (None, base):
            raise UserError(
                f"{path.name}: this LoRA is for {told}, not for {base}",
                "The family that it was trained on was expected",
                f'Choose "{told}", or leave the family out',
            )
        return base, []
    if told is not None:
        return told, []
    guess = likely_base(shapes)
    if guess is None:
        raise UserError(
            f"{path.name}: no adapter in it",
            "A LoRA file was expected",
            "Choose another file; `onetrainer show` tells what this one is",
        )
    return guess, [f"Nothing in {path.name} tells what it was trained on; taken for {guess}"]


def _unknown_notes(file: LoraFile, base: Base) -> list[str]:
    if not file.unknown:
        return []
    first = min(file.unknown)
    return [
        f"{len(file.unknown)} tensors belong to no layer of {base} and are kept under their"
        f" names, first {first}"
    ]
