"""Embeddings from one file to another: from any form in use to the one that most programs read."""

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
    """Writes the embedding of a file as .safetensors; returns what a person should know of it.

    name: which one of a file that bundles several; of a file with one, what it is called now.
    Raises UserError if there is no such embedding, or the target is taken or of another kind.
    """
    require_safetensors(target, "embeddings")
    embedding = read_embedding(source, name=name)
    if name:
        embedding = replace(embedding, name=name, metadata={**embedding.metadata, "name": name})
    write_embedding(target, embedding, dtype=PRECISIONS[precision], overwrite=overwrite)
    return _notes(embedding, target)


def require_safetensors(target: Path, what: str) -> None:
    """Raises UserError unless the name is one of a safetensors file. what: a word for messages."""
    if target.suffix.lower() != SUFFIX:
        raise UserError(
            f"{target.name}: {what} are written as {SUFFIX} only",
            f"A name that ends in {SUFFIX} was expected",
            f"Use {target.stem}{SUFFIX}; every program reads it",
        )


def _notes(embedding: Embedding, target: Path) -> list[str]:
    count = f"{embedding.length} vector{'s' if embedding.length != 1 else ''}"
    notes = [f'An embedding of {count} for {embedding.family}, called "{embedding.name}".']
    if embedding.name != target.stem:
        notes.append(f'Programs that go by the file\'s name call it "{target.stem}".')
    if embedding.outputs:
        notes.append("Few programs read its vectors for the text encoders' output.")
    return notes
