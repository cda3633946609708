"""Embeddings' vectors put in their places: before a text encoder reads, and after it has spoken.

The vectors that train are float32, whatever the encoder's dtype; `VectorTable.put` is the one place
where they are cast to it.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from modules.formats.embeddings.embedding_file import Embedding, family_words
from modules.memory.to_device import sent
from onetrainer.errors import UserError


@dataclass(frozen=True)
class VectorTable:
    """What embeddings give for one place of one encoder, numbered over all of them.

    rows: (N, D). is_given: (N,), whether there is one; where not, what stands there stays.
    """

    rows: Tensor
    is_given: Tensor

    def put(self, places: Tensor, standing: Tensor) -> Tensor:
        """What stands there, with the vectors in their places, cast to its dtype.

        places: (B, T), int64, the number of each place's vector, negative where there is none.
        standing: (B, T, D). Of a vector that stands nowhere the gradient is zero.
        """
        numbers = places.clamp(min=0)
        is_placed = (places >= 0) & self.is_given[numbers]
        # Not `rows[numbers]`: on several threads its gradient sums in an order that changes.
        chosen = functional.embedding(numbers, self.rows).to(standing.dtype)
        return torch.where(is_placed.unsqueeze(-1), chosen, standing)


def input_table(
    embeddings: Mapping[str, Embedding], encoder: str, width: int, device: torch.device
) -> VectorTable:
    """What an encoder reads: of embeddings that only replace its output, zeros.

    Zeros, because the files that hold nothing else come from a program that reads them so.
    """
    given = [_given(e, e.vectors.get(encoder), width, device) for e in embeddings.values()]
    rows = torch.cat([rows for rows, _ in given])
    return VectorTable(rows, torch.ones(len(rows), dtype=torch.bool, device=device))


def output_table(
    embeddings: Mapping[str, Embedding], encoder: str, width: int, device: torch.device
) -> VectorTable | None:
    """What replaces an encoder's output; None if no embedding does."""
    if not any(encoder in embedding.outputs for embedding in embeddings.values()):
        return None
    given = [_given(e, e.outputs.get(encoder), width, device) for e in embeddings.values()]
    rows, is_given = zip(*given, strict=True)
    return VectorTable(torch.cat(rows), torch.cat(is_given))


@contextmanager
def placing(table: nn.Module, vectors: VectorTable, places: Tensor) -> Iterator[None]:
    """Meanwhile an encoder's token table gives the vectors in their places."""

    def place(_table: nn.Module, _ids: object, given: Tensor) -> Tensor:
        return vectors.put(places, given)

    # A hook, because transformers' forward takes no input embeddings, and the table must stay
    # what it is: its weights are saved, and others read the same encoder without vectors.
    hook = table.register_forward_hook(place)
    try:
        yield
    finally:
        hook.remove()


def vectors_digest(embedding: Embedding) -> str:
    """Tells an embedding's vectors from others."""
    digest = hashlib.sha256()
    for place, side in (("input", embedding.vectors), ("output", embedding.outputs)):
        for name, rows in sorted(side.items()):
            digest.update(f"{place} {name} {tuple(rows.shape)}\n".encode())
            digest.update(rows.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def check_widths(word: str, embedding: Embedding, needed: Mapping[str, int]) -> None:
    """Raises UserError unless each encoder gets vectors of its width, to read or in its place.

    needed: each encoder's width, by its name.
    """
    sides = (embedding.vectors, embedding.outputs)
    given = [(name, rows.shape[1]) for side in sides for name, rows in side.items()]
    if all(needed.get(name) == width for name, width in given) and dict(given).keys() == (
        needed.keys()
    ):
        return
    vectors = f"vectors of {_listed(dict(given))} numbers" if given else "no vectors"
    raise UserError(
        f'The embedding "{word}" has {vectors} ({embedding.family})',
        f"This model reads vectors of {_listed(needed)} ({family_words(needed)})",
        "Choose an embedding that was trained for this kind of model",
    )


def _given(
    embedding: Embedding, rows: Tensor | None, width: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """An embedding's rows, (n, D), or zeros if there are none; and (n,), whether there are."""
    is_given = torch.full((embedding.length,), rows is not None, device=device)
    if rows is None:
        return torch.zeros(embedding.length, width, device=device), is_given
    return sent(rows, device), is_given


def _listed(widths: Mapping[str, int]) -> str:
    return " and ".join(str(value) for _, value in sorted(widths.items()))
