"""Captions as CLIP's tokens: cut into chunks of 75, with an embedding's vectors in their places."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor
from transformers import CLIPTokenizer

from onetrainer.captions.placeholder_tokens import split_at_words

CHUNK = 75
PADDING = -1  # what follows a chunk's end: each encoder has an id of its own for it

# What the border of a chunk does not cut: a single token, or all vectors of an embedding.
Unit = list[int]


def vector_ids(tokenizer: CLIPTokenizer, lengths: Mapping[str, int]) -> dict[str, list[int]]:
    """Ids for the vectors of words, following the tokenizer's own; lengths: how many each has."""
    ids, first = {}, len(tokenizer)
    for word, length in lengths.items():
        ids[word] = list(range(first, first + length))
        first += length
    return ids


def tokenize(
    tokenizer: CLIPTokenizer, captions: Sequence[str], words: Mapping[str, list[int]]
) -> list[list[Unit]]:
    """Each caption's tokens, without start and end.

    words: by their keys, the ids to put for them where they stand alone in a caption.
    """
    # Text and words in turn; the first and the last are text, if only "".
    parts = [split_at_words(caption, words) for caption in captions]
    texts = [text for part in parts for text in part[::2]]
    found = iter(_ids(tokenizer, texts))
    return [list(_units(part, found, words)) for part in parts]


def chunk_tokens(tokenizer: CLIPTokenizer, captions: Sequence[Iterable[Unit]]) -> Tensor:
    """(B, chunks, 77), int64: each chunk with a start and an end, filled up with PADDING.

    Shorter captions are filled up with chunks without text; without any there is still one.
    """
    filled = [_fill(units) for units in captions]
    longest = max(map(len, filled), default=1)
    start, end = int(tokenizer.bos_token_id), int(tokenizer.eos_token_id)
    rows = [
        [start, *chunk, end, *[PADDING] * (CHUNK - len(chunk))]
        for chunks in filled
        for chunk in [*chunks, *[[]] * (longest - len(chunks))]
    ]
    return torch.tensor(rows, dtype=torch.int64).view(len(captions), longest, CHUNK + 2)


def _units(
    parts: list[str], found: Iterator[list[int]], words: Mapping[str, list[int]]
) -> Iterator[Unit]:
    for index, part in enumerate(parts):
        if index % 2:
            yield words[part]
        else:
            yield from ([token] for token in next(found))


def _ids(tokenizer: CLIPTokenizer, texts: list[str]) -> list[list[int]]:
    if not texts:
        return []
    # verbose=False: the tokenizer warns of texts longer than 77 tokens, which chunks provide for.
    ids: list[list[int]] = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    return ids


def _fill(units: Iterable[Unit]) -> list[list[int]]:
    """The tokens in chunks; a unit is cut only where it is longer than a chunk."""
    chunks: list[list[int]] = [[]]
    for unit in units:
        if len(chunks[-1]) + len(unit) > CHUNK >= len(unit):
            chunks.append([])
        for token in unit:
            if len(chunks[-1]) == CHUNK:
                chunks.append([])
            chunks[-1].append(token)
    return chunks
