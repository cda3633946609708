"""What a word's vectors begin as: a text's, a file's, or random ones."""

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
from onetrainer.config.methods.embedding import Word
from onetrainer.errors import UserError

MOST_VECTORS = 75  # what one of CLIP's chunks holds; a word longer than that is torn apart

Rows = Mapping[str, Tensor]
"""By the encoder's name, (n, D), float32."""


def initial_embedding(family: Family, word: Word, *, seed: int) -> Embedding:
    """The vectors to begin with, float32, of a word that replaces input or output.

    An output word keeps the vectors that stand for it in the input, so that the rest of a prompt,
    and SDXL's pooled vector, are told of the text that it began as; its file holds them, too.
    Raises UserError for a file that does not fit.
    """
    if word.start_from:
        return _of_file(family, word)
    vectors = _of_text(family, word) or _random(family, word, seed)
    if word.place == "input":
        return Embedding(word.token, vectors)
    return Embedding(word.token, vectors, family.vocabulary.outputs_of(vectors))


def _of_text(family: Family, word: Word) -> Rows:
    """A text's own vectors, repeated from the first or cut; none for an empty one."""
    found = family.vocabulary.token_vectors(word.initial_text)
    tokens = min(map(len, found.values()))
    if tokens == 0:
        return {}
    count = word.vectors or tokens
    if count > MOST_VECTORS:
        raise UserError(
            f'"{word.token}" would begin as {tokens} tokens (initial_text)',
            f"Expected {MOST_VECTORS} at most, which is what a prompt can hold",
            "Shorten the text, or set how many vectors the word is to have",
        )
    return {te: rows[torch.arange(count) % tokens] for te, rows in found.items()}


def _random(family: Family, word: Word, seed: int) -> Rows:
    """Vectors in any direction, as long as those of words."""
    widths = {te: rows.shape[1] for te, rows in family.vocabulary.token_vectors("").items()}
    norms = family.vocabulary.token_norms()
    vectors = {}
    for te, width in widths.items():
        generator = seeds.generator(seed, f"embedding-init {word.token}.{te}")
        rows = torch.randn(word.vectors or 1, width, generator=generator)
        vectors[te] = rows * (norms[te] / torch.linalg.vector_norm(rows, dim=1, keepdim=True))
    return vectors


def _of_file(family: Family, word: Word) -> Embedding:
    path = Path(word.start_from)
    by_word = read_embeddings_by_token(path)
    found = (
        next(iter(by_word.values())) if len(by_word) == 1 else read_embedding(path, name=word.token)
    )
    family.with_embeddings({word.token: found})  # refuses what is for another model
    vectors = {te: rows.float() for te, rows in found.vectors.items()}
    outputs = {te: rows.float() for te, rows in found.outputs.items()}
    needed = family.text_encoders.keys()
    if word.place == "output":
        is_complete = outputs.keys() == needed
        outputs = outputs if is_complete else dict(family.vocabulary.outputs_of(vectors))
        return Embedding(word.token, vectors, outputs)
    if vectors.keys() != needed:
        raise UserError(
            f'{path.name}: its vectors replace what text encoders say of a word, but "{word.token}"'
            " is one that they read",
            'Expected vectors for the input, or a word whose place is "output"',
            'Let the word replace what the encoder says (place "output"), or choose another file',
        )
    return Embedding(word.token, vectors)
