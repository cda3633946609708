"""Conversion of an embedding file of any form to the one that most programs read."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from modules.formats.embeddings.embedding_file import Embedding, read_embedding, write_embedding
from modules.formats.files.tensor_source import PRECISIONS
from onetrainer.errors import UserError

SUFFIX = ".safetensors"


def convert_embedding(
    source: Path,
    target: Path,
    *,
    precision: Literal["keep", "fp32", "fp16", "bf16"] = "keep",
    overwrite: bool = False,
    name: str = "",
) -> list[str]:
    """Write the embedding of a file as .safetensors and return notes for people.

    name: Which embedding of a file that bundles several; for a file with one, its new name.

    Raises:
        UserError: If there is no such embedding, or the target exists or has another suffix.
    """
    require_safetensors(target, "embeddings")
    embedding = read_embedding(source, name=name)
    if name:
        embedding = replace(embedding, name=name, metadata={**embedding.metadata, "name": name})
    write_embedding(target, embedding, dtype=PRECISIONS[precision], overwrite=overwrite)
    return _notes(embedding, target)


def require_safetensors(target: Path, what: str) -> None:
    """Raise UserError unless the file name ends in .safetensors. what: Subject of the message."""
    if target.suffix.lower() != SUFFIX:
        raise UserError(
            f"{target.name}: {what} can only be written as {SUFFIX}",
            f"Expected a name that ends in {SUFFIX}",
            f"Use {target.stem}{SUFFIX}; every program reads it",
        )


def _notes(embedding: Embedding, target: Path) -> list[str]:
    count = f"{embedding.length} vector{'s' if embedding.length != 1 else ''}"
    notes = [f'An embedding of {count} for {embedding.family}, named "{embedding.name}".']
    if embedding.name != target.stem:
        notes.append(f'Programs that use the file name as the token call it "{target.stem}".')
    if embedding.outputs:
        notes.append("Few programs read its vectors for the text encoders' output.")
    return notes
