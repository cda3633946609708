"""Rules of embeddings (textual inversion)."""

import re
from collections.abc import Iterator

from onetrainer.captions.placeholder_tokens import token_key
from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.methods.embedding import EmbeddingOnly, EmbeddingToken
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem, warning


def problems(config: TrainConfig) -> Iterator[Problem]:
    """Yield problems of the tokens whose vectors are trained."""
    tokens = config.embeddings.tokens
    is_trained = any(token.train for token in tokens)
    if isinstance(config.method, EmbeddingOnly) and not is_trained:
        yield Problem(
            "embeddings.tokens",
            "no embedding is trained, and the method trains nothing else",
            "Expected at least one token to train",
            "Add a token, or choose another method.",
        )
    yield from _token_problems(tokens)
    section = config.optimizer
    if section.is_schedule_free and config.embeddings.preserve_norm and is_trained:
        yield Problem(
            "embeddings.preserve_norm",
            f"{section.title} saves an average of internal vectors, whose norm cannot be preserved:"
            " it would shrink to almost nothing",
            "Expected it off, or another optimizer",
            "Turn it off, or choose another optimizer.",
            choices=(Fix("embeddings.preserve_norm", False), Fix("optimizer.kind", "adamw")),
        )
    yield from _sample_problems(config)
    if config.embeddings.bundle and tokens and not isinstance(config.method, Adapter):
        yield warning(
            "embeddings.bundle",
            "there is no LoRA file to bundle the embeddings into",
            "Each embedding gets a file of its own",
            "Turn it off.",
            to=False,
        )


def _token_problems(tokens: tuple[EmbeddingToken, ...]) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, item in enumerate(tokens):
        path, key = f"embeddings.tokens.{index}.token", token_key(item.token)
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
            yield warning(
                path,
                f'"{item.token}" contains a comma',
                "Commas separate tags, which may be shuffled or dropped",
                "Choose a token without one.",
            )
        seen.add(key)
        if not (item.train or item.start_from or item.initial_text.strip()):
            yield Problem(
                f"embeddings.tokens.{index}.start_from",
                f'"{item.token}" is not trained, so it keeps its random initial vectors',
                "Expected a file to continue from, or an initial text",
                "Choose a file, or train it.",
            )


def _sample_problems(config: TrainConfig) -> Iterator[Problem]:
    texts = [token_key(f"{prompt.prompt} {prompt.negative}") for prompt in config.sampling.prompts]
    keys = [token_key(item.token) for item in config.embeddings.tokens if item.train]
    if texts and keys and not any(key in text for key in keys for text in texts):
        yield warning(
            "sampling.prompts",
            "no sample prompt contains a token that is trained",
            f'Expected "{config.embeddings.tokens[0].token}" in one of them',
            "Add it to a prompt.",
        )
