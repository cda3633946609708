"""Initial vectors of a placeholder token: from a text, from a file, or random."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from modules import seeds
from modules.formats.embeddings.embedding_file import (
    Embedding,
    read_embedding,
    read_embeddings_by_token,
)
from modules.interfaces import Family
from onetrainer.config.methods.embedding import EmbeddingToken
from onetrainer.errors import UserError

MAX_VECTORS = 75  # one of CLIP's chunks; a longer token would be split

Rows = Mapping[str, Tensor]
"""Vectors, (n, D), float32, by the encoder's name."""


def initial_embedding(family: Family, token: EmbeddingToken, *, seed: int) -> Embedding:
    """Return the initial vectors, float32, of a token that replaces input or output.

    An output token keeps its input vectors, so that the rest of the prompt, and the pooled
    vector, depend on the initial text; its file holds them too.

    Raises:
        UserError: For a file that does not fit.
    """
    if token.start_from:
        return _from_file(family, token)
    vectors = _from_text(family, token) or _random(family, token, seed)
    if token.place == "input":
        return Embedding(token.token, vectors)
    return Embedding(token.token, vectors, family.vocabulary.outputs_of(vectors))


def _from_text(family: Family, token: EmbeddingToken) -> Rows:
    """Return a text's vectors, repeated or cut to the wanted number; empty for ""."""
    text_vectors = family.vocabulary.token_vectors(token.initial_text)
    tokens = min(map(len, text_vectors.values()))
    if tokens == 0:
        return {}
    count = token.vectors or tokens
    if count > MAX_VECTORS:
        raise UserError(
            f'"{token.token}" would start as {tokens} tokens (initial_text)',
            f"Expected at most {MAX_VECTORS}, which fit into a prompt",
            "Shorten the text, or set the number of vectors",
        )
    return {te: rows[torch.arange(count) % tokens] for te, rows in text_vectors.items()}


def _random(family: Family, token: EmbeddingToken, seed: int) -> Rows:
    """Return vectors of random direction with the norm of known tokens."""
    widths = {te: rows.shape[1] for te, rows in family.vocabulary.token_vectors("").items()}
    norms = family.vocabulary.token_norms()
    vectors = {}
    for te, width in widths.items():
        generator = seeds.generator(seed, f"embedding-init {token.token}.{te}")
        rows = torch.randn(token.vectors or 1, width, generator=generator)
        vectors[te] = rows * (norms[te] / torch.linalg.vector_norm(rows, dim=1, keepdim=True))
    return vectors


def _from_file(family: Family, token: EmbeddingToken) -> Embedding:
    path = Path(token.start_from)
    by_token = read_embeddings_by_token(path)
    embedding = (
        next(iter(by_token.values()))
        if len(by_token) == 1
        else read_embedding(path, name=token.token)
    )
    family.with_embeddings({token.token: embedding})  # raises for another model's embedding
    vectors = {te: rows.float() for te, rows in embedding.vectors.items()}
    outputs = {te: rows.float() for te, rows in embedding.outputs.items()}
    needed = family.text_encoders.keys()
    if token.place == "output":
        is_complete = outputs.keys() == needed
        outputs = outputs if is_complete else dict(family.vocabulary.outputs_of(vectors))
        return Embedding(token.token, vectors, outputs)
    if vectors.keys() != needed:
        raise UserError(
            f'{path.name}: its vectors replace the text encoders\' output, but "{token.token}"'
            " replaces their input",
            "Expected the file of an input embedding",
            f'Choose another file, or train "{token.token}" as an output embedding',
        )
    return Embedding(token.token, vectors)
