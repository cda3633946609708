"""Rules of embeddings (textual inversion)."""

import re
from collections.abc import Iterator

from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.methods.embedding import EmbeddingOnly, EmbeddingToken
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem


def problems(config: TrainConfig) -> list[Problem]:
    """Return problems of the tokens whose vectors are trained."""
    tokens = config.embeddings.tokens
    found = [*_method_problems(config), *_token_problems(tokens), *_initial_value_problems(tokens)]
    found += [*_norm_problems(config), *_sample_problems(config)]
    if config.embeddings.bundle and tokens and not isinstance(config.method, Adapter):
        found.append(
            Problem(
                "embeddings.bundle",
                "there is no LoRA file to bundle the embeddings into",
                "Each embedding gets a file of its own",
                "Turn it off.",
                "warning",
                Fix("embeddings.bundle", value=False),
            )
        )
    return found


def _method_problems(config: TrainConfig) -> Iterator[Problem]:
    is_trained = any(token.train for token in config.embeddings.tokens)
    if isinstance(config.method, EmbeddingOnly) and not is_trained:
        yield Problem(
            "embeddings.tokens",
            "no embedding is trained, and the method trains nothing else",
            "Expected at least one token to train",
            "Add a token, or choose another method.",
        )


def _norm_problems(config: TrainConfig) -> Iterator[Problem]:
    section = config.optimizer
    is_trained = any(token.train for token in config.embeddings.tokens)
    if section.is_schedule_free and config.embeddings.preserve_norm and is_trained:
        yield Problem(
            "embeddings.preserve_norm",
            f"{section.title} saves an average of internal vectors, whose norm cannot be preserved:"
            " it would shrink to almost nothing",
            "Expected it off, or another optimizer",
            "Turn it off, or choose another optimizer.",
            choices=(
                Fix("embeddings.preserve_norm", value=False),
                Fix("optimizer.kind", "adamw"),
            ),
        )


def _token_problems(tokens: tuple[EmbeddingToken, ...]) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, item in enumerate(tokens):
        path, key = f"embeddings.tokens.{index}.token", _key(item.token)
        if not re.search(r"\w", key):
            yield Problem(
                path,
                f"{item.token!r} has no letters or digits",
                "Expected a token that can occur in captions",
                "Choose another token.",
            )
        elif key in seen:
            yield Problem(
                path,
                f'"{item.token}" is used twice',
                "Each embedding needs a token of its own; case is ignored",
                "Rename it, or remove one of them.",
            )
        elif "," in key:
            yield Problem(
                path,
                f'"{item.token}" contains a comma',
                "Commas separate tags, which may be shuffled or dropped",
                "Choose a token without one.",
                "warning",
            )
        seen.add(key)


def _initial_value_problems(tokens: tuple[EmbeddingToken, ...]) -> Iterator[Problem]:
    for index, item in enumerate(tokens):
        if not (item.train or item.start_from or item.initial_text.strip()):
            yield Problem(
                f"embeddings.tokens.{index}.start_from",
                f'"{item.token}" is not trained, so it keeps its random initial vectors',
                "Expected a file to continue from, or an initial text",
                "Choose a file, or train it.",
            )


def _sample_problems(config: TrainConfig) -> Iterator[Problem]:
    texts = [_key(f"{prompt.prompt} {prompt.negative}") for prompt in config.sampling.prompts]
    keys = [_key(item.token) for item in config.embeddings.tokens if item.train]
    if texts and keys and not any(key in text for key in keys for text in texts):
        yield Problem(
            "sampling.prompts",
            "no sample prompt contains a token that is trained",
            f'Expected "{config.embeddings.tokens[0].token}" in one of them',
            "Add it to a prompt.",
            "warning",
        )


def _key(text: str) -> str:
    """Return text in the form that is compared: case and repeated spaces are ignored."""
    return " ".join(text.lower().split())
