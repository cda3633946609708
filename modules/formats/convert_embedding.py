"""Embeddings from one file to another: from any form in use to the one that most programs read."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from modules.formats.embedding_file import Embedding, read_embedding, write_embedding
from modules.formats.tensor_source import PRECISIONS
from onetrainer.errors import UserError


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
    if target.suffix.lower() != ".safetensors":
        raise UserError(
            f"{target.name}: embeddings are written as .safetensors only",
            "A name that ends in .safetensors was expected",
            f"Use {target.with_suffix('.safetensors').name}; every program reads it",
        )
    embedding = read_embedding(source, name=name)
    if name:
        embedding = replace(embedding, name=name, metadata={**embedding.metadata, "name": name})
    write_embedding(target, embedding, dtype=PRECISIONS[precision], overwrite=overwrite)
    return _notes(embedding, target)


def _notes(embedding: Embedding, target: Path) -> list[str]:
    count = f"{embedding.length} vector{'s' if embedding.length > 1 else ''}"
    notes = [f'An embedding of {count} for {embedding.family}, called "{embedding.name}".']
    if embedding.name != target.stem:
        notes.append(f'Programs that go by the file\'s name call it "{target.stem}".')
    if embedding.outputs:
        notes.append("Few programs read its vectors for the text encoders' output.")
    return notes
