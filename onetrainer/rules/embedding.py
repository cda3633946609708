"""What is wrong between the words that are learned and the other settings."""

import re
from collections.abc import Iterator

from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.methods.embedding import EmbeddingOnly, Word
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem


def problems(config: TrainConfig) -> list[Problem]:
    """Problems of the words whose vectors are learned."""
    words = config.embeddings.tokens
    found = [*_method(config), *_words(words), *_beginnings(words)]
    found += [*_lengths(config), *_samples(config)]
    if config.embeddings.bundle and words and not isinstance(config.method, Adapter):
        found.append(
            Problem(
                "embeddings.bundle",
                "there is no LoRA file to put the words into",
                "Each word gets a file of its own",
                "Switch it off.",
                "warning",
                Fix("embeddings.bundle", value=False),
            )
        )
    return found


def _method(config: TrainConfig) -> Iterator[Problem]:
    """A method that trains nothing but words, and none of them."""
    words = config.embeddings.tokens
    if isinstance(config.method, EmbeddingOnly) and not any(word.train for word in words):
        yield Problem(
            "embeddings.tokens",
            "no word is to be learned, and the method learns nothing else",
            "Expected at least one that trains",
            "Add a word, or choose another method.",
        )


def _lengths(config: TrainConfig) -> Iterator[Problem]:
    """Lengths that are kept of weights which the optimizer averages from others."""
    section = config.optimizer
    is_kept = config.embeddings.preserve_norm and any(w.train for w in config.embeddings.tokens)
    if section.is_schedule_free and is_kept:
        yield Problem(
            "embeddings.preserve_norm",
            f"{section.title} writes an average of vectors that it keeps to itself, whose length"
            " nothing preserves: it would shrink to almost nothing",
            "Expected vectors as long as they become with it, or another optimizer",
            "Switch it off, or choose another optimizer.",
            choices=(
                Fix("embeddings.preserve_norm", value=False),
                Fix("optimizer.kind", "adamw"),
            ),
        )


def _words(words: tuple[Word, ...]) -> Iterator[Problem]:
    seen: set[str] = set()
    for place, word in enumerate(words):
        path, key = f"embeddings.tokens.{place}.token", _key(word.token)
        if not re.search(r"\w", key):
            yield Problem(
                path,
                f"{word.token!r} has neither letter nor digit",
                "Expected a word that captions can hold",
                "Choose another word.",
            )
        elif key in seen:
            yield Problem(
                path,
                f'"{word.token}" stands here twice',
                "Each needs a word of its own; upper and lower case count as the same",
                "Rename it, or remove one of them.",
            )
        elif "," in key:
            yield Problem(
                path,
                f'"{word.token}" holds a comma',
                "Commas separate tags, which may be shuffled or dropped",
                "Choose a word without one.",
                "warning",
            )
        seen.add(key)


def _beginnings(words: tuple[Word, ...]) -> Iterator[Problem]:
    """Words that would stay what chance has made of them."""
    for place, word in enumerate(words):
        if not (word.train or word.start_from or word.initial_text.strip()):
            yield Problem(
                f"embeddings.tokens.{place}.start_from",
                f'"{word.token}" is not trained, so it keeps its random initial vectors',
                "Expected a file to take it from, or a text that it begins as",
                "Choose a file, or train it.",
            )


def _samples(config: TrainConfig) -> Iterator[Problem]:
    """Sample pictures that would show nothing of what is learned."""
    texts = [_key(f"{prompt.prompt} {prompt.negative}") for prompt in config.sampling.prompts]
    keys = [_key(word.token) for word in config.embeddings.tokens if word.train]
    if texts and keys and not any(key in text for key in keys for text in texts):
        yield Problem(
            "sampling.prompts",
            "no sample prompt has a word that is learned",
            f'Expected "{config.embeddings.tokens[0].token}" in one of them',
            "Put it where you would use it.",
            "warning",
        )


def _key(word: str) -> str:
    """The form in which words are compared: upper case and the width of spaces do not count."""
    return " ".join(word.lower().split())
