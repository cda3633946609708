"""Insertion of embeddings' vectors into the input or output of text encoders.

Trained vectors are float32 for any dtype of the encoder; only `VectorTable.insert` casts them to
it.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from modules.formats.embeddings.embedding_file import Embedding, family_label
from modules.memory.to_device import to_device
from onetrainer.errors import UserError


@dataclass(frozen=True)
class VectorTable:
    """All embeddings' vectors for the input or the output of one encoder.

    Attributes:
        rows: (N, D).
        is_given: (N,), whether a vector replaces what is there.
    """

    rows: Tensor
    is_given: Tensor

    def insert(self, places: Tensor, values: Tensor) -> Tensor:
        """Return `values` with the vectors inserted at their places, cast to its dtype.

        Vectors that occur nowhere get a gradient of zero.

        places: (B, T), int64, the number of the vector at each place, negative for none.
        values: (B, T, D).
        """
        numbers = places.clamp(min=0)
        is_placed = (places >= 0) & self.is_given[numbers]
        # Not `rows[numbers]`: on several threads its gradient sums in an order that changes.
        chosen = functional.embedding(numbers, self.rows).to(values.dtype)
        return torch.where(is_placed.unsqueeze(-1), chosen, values)


def input_table(
    embeddings: Mapping[str, Embedding], encoder: str, width: int, device: torch.device
) -> VectorTable:
    """Return the vectors that an encoder reads; zeros for embeddings of its output alone.

    The program that writes output vectors alone reads zeros there.
    """
    given = [_rows_or_zeros(e, e.vectors.get(encoder), width, device) for e in embeddings.values()]
    rows = torch.cat([rows for rows, _ in given])
    return VectorTable(rows, torch.ones(len(rows), dtype=torch.bool, device=device))


def output_table(
    embeddings: Mapping[str, Embedding], encoder: str, width: int, device: torch.device
) -> VectorTable | None:
    """Return the vectors that replace an encoder's output; None if no embedding has any."""
    if not any(encoder in embedding.outputs for embedding in embeddings.values()):
        return None
    given = [_rows_or_zeros(e, e.outputs.get(encoder), width, device) for e in embeddings.values()]
    rows, is_given = zip(*given, strict=True)
    return VectorTable(torch.cat(rows), torch.cat(is_given))


@contextmanager
def inserted_vectors(table: nn.Module, vectors: VectorTable, places: Tensor) -> Iterator[None]:
    """Insert vectors into the output of an encoder's token table within the context."""

    def insert_rows(_table: nn.Module, _ids: object, given: Tensor) -> Tensor:
        return vectors.insert(places, given)

    # A hook, because transformers' forward takes no input embeddings, and the table must not
    # change: its weights are saved, and others read the same encoder without vectors.
    hook = table.register_forward_hook(insert_rows)
    try:
        yield
    finally:
        hook.remove()


def vectors_digest(embedding: Embedding) -> str:
    """Return a digest of an embedding's vectors."""
    digest = hashlib.sha256()
    for place, side in (("input", embedding.vectors), ("output", embedding.outputs)):
        for name, rows in sorted(side.items()):
            digest.update(f"{place} {name} {tuple(rows.shape)}\n".encode())
            digest.update(rows.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def check_widths(token: str, embedding: Embedding, needed: Mapping[str, int]) -> None:
    """Raise UserError unless the embedding has vectors of each encoder's width.

    needed: The encoders' widths by name.
    """
    sides = (embedding.vectors, embedding.outputs)
    given = [(name, rows.shape[1]) for side in sides for name, rows in side.items()]
    if all(needed.get(name) == width for name, width in given) and dict(given).keys() == (
        needed.keys()
    ):
        return
    vectors = f"vectors of {_format_widths(dict(given))} numbers" if given else "no vectors"
    raise UserError(
        f'The embedding "{token}" has {vectors} ({embedding.family})',
        f"Expected vectors of {_format_widths(needed)} numbers ({family_label(needed)})",
        "Choose an embedding that was trained for this model family",
    )


def _rows_or_zeros(
    embedding: Embedding, rows: Tensor | None, width: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return an embedding's rows, (n, D), zeros if None, and (n,), whether they were given."""
    is_given = torch.full((embedding.length,), rows is not None, device=device)
    if rows is None:
        return torch.zeros(embedding.length, width, device=device), is_given
    return to_device(rows, device), is_given


def _format_widths(widths: Mapping[str, int]) -> str:
    return " and ".join(str(value) for _, value in sorted(widths.items()))
