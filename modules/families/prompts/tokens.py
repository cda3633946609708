"""Tokenization of captions for CLIP: chunks of 75 tokens with embeddings' vectors in place."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor
from transformers import CLIPTokenizer

from onetrainer.captions.placeholder_tokens import split_at_tokens

CHUNK = 75
PADDING = -1  # after a chunk's end; each encoder replaces it by its own padding id

# Ids that are kept in one chunk: a single token, or all vectors of an embedding.
Unit = list[int]
T = TypeVar("T")


def assign_vector_ids(tokenizer: CLIPTokenizer, lengths: Mapping[str, int]) -> dict[str, list[int]]:
    """Assign ids, after the tokenizer's own, to the vectors of placeholder tokens.

    lengths: How many vectors each token has.
    """
    ids, first = {}, len(tokenizer)
    for token, length in lengths.items():
        ids[token] = list(range(first, first + length))
        first += length
    return ids


def tokenize(
    tokenizer: CLIPTokenizer, captions: Sequence[str], placeholder_ids: Mapping[str, list[int]]
) -> list[list[Unit]]:
    """Return each caption's token ids, without start and end.

    placeholder_ids: By normalized placeholder token, the ids to use where it occurs as a word.
    """
    # Text and placeholder tokens alternate; the first and the last are text, perhaps "".
    segments = [split_at_tokens(caption, placeholder_ids) for caption in captions]
    texts = [text for segment in segments for text in segment[::2]]
    segment_ids = iter(_ids(tokenizer, texts))
    return [list(_units(segment, segment_ids, placeholder_ids)) for segment in segments]


def chunk_tokens(tokenizer: CLIPTokenizer, captions: Sequence[Iterable[Unit]]) -> Tensor:
    """Arrange token ids in chunks, (B, chunks, 77), int64, each with start, end and PADDING.

    Shorter captions are padded with empty chunks; a batch without tokens has one chunk.
    """
    start, end = int(tokenizer.bos_token_id), int(tokenizer.eos_token_id)
    return torch.tensor(_chunks(captions, start, end, PADDING), dtype=torch.int64).view(
        len(captions), -1, CHUNK + 2
    )


def chunk_weights(captions: Sequence[Iterable[list[float]]]) -> Tensor:
    """Arrange the weights of tokens as `chunk_tokens` does their ids; 1 for its own tokens."""
    return torch.tensor(_chunks(captions, 1.0, 1.0, 1.0)).view(len(captions), -1, CHUNK + 2)


def _chunks(captions: Sequence[Iterable[list[T]]], start: T, end: T, padding: T) -> list[list[T]]:
    """Return the chunks of all captions one after the other, of each as many as of the longest."""
    filled = [_fill(units) for units in captions]
    longest = max(map(len, filled), default=1)
    for chunks in filled:
        chunks.extend([] for _ in range(longest - len(chunks)))
    return [
        [start, *chunk, end, *[padding] * (CHUNK - len(chunk))]
        for chunks in filled
        for chunk in chunks
    ]


def _units(
    segments: list[str], segment_ids: Iterator[list[int]], placeholder_ids: Mapping[str, list[int]]
) -> Iterator[Unit]:
    for index, segment in enumerate(segments):
        if index % 2:
            yield placeholder_ids[segment]
        else:
            yield from ([token] for token in next(segment_ids))


def _ids(tokenizer: CLIPTokenizer, texts: list[str]) -> list[list[int]]:
    if not texts:
        return []
    # verbose=False: the tokenizer would warn of texts longer than 77 tokens, which we cut.
    ids: list[list[int]] = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    return ids


def _fill(units: Iterable[list[T]]) -> list[list[T]]:
    """Cut token ids into chunks; a unit is cut only if it is longer than a chunk."""
    chunks: list[list[T]] = [[]]
    for unit in units:
        if len(chunks[-1]) + len(unit) > CHUNK >= len(unit):
            chunks.append([])
        for token in unit:
            if len(chunks[-1]) == CHUNK:
                chunks.append([])
            chunks[-1].append(token)
    return chunks
