"""Weights of words applied to the outputs of text encoders.

Only the vectors of tokens are weighted; the vector of a whole text is not, as in both programs.
"""

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor
from transformers import CLIPTokenizer

from modules.families.prompts.tokens import Unit, tokenize
from onetrainer.captions.prompt_weights import weighted_pieces
from onetrainer.config.base.prompt_weights import PromptWeights

Weighted = list[tuple[Unit, float]]
"""The tokens of a caption, and the weight of each unit of them."""


def tokenize_weighted(
    tokenizer: CLIPTokenizer,
    captions: Sequence[str],
    placeholder_ids: Mapping[str, list[int]],
    style: PromptWeights,
) -> list[Weighted]:
    """Return each caption's token ids with their weights, without start and end; see `tokenize`."""
    pieces = [weighted_pieces(caption, style) for caption in captions]
    texts = [text for each in pieces for text, _ in each]
    units = iter(tokenize(tokenizer, texts, placeholder_ids))
    return [list(_weighted(each, units)) for each in pieces]


def _weighted(
    pieces: Sequence[tuple[str, float]], units: Iterator[list[Unit]]
) -> Iterator[tuple[Unit, float]]:
    for _, weight in pieces:
        for unit in next(units):
            yield unit, weight


def apply_weights(hidden: Tensor, weights: Tensor, style: PromptWeights) -> Tensor:
    """Weight the vectors of tokens, (B, chunks, 77, D), in float32; the dtype stays.

    "a1111": multiplied, then each chunk is scaled to its mean before. "comfyui": moved away from
    the vector at the same place of the empty prompt.

    Args:
        hidden: One encoder's output. For "comfyui" the last row is the empty prompt, left out of
            the result.
        weights: (B, chunks, 77).
        style: Which program's formula.
    """
    factors = weights.to(hidden.device).unsqueeze(-1)
    exact = hidden.float()
    if style == "comfyui":
        empty, exact = exact[-1, 0], exact[:-1]
        return torch.where(factors == 1, exact, empty + factors * (exact - empty)).to(hidden.dtype)
    weighted = factors * exact
    ratio = exact.mean((2, 3), keepdim=True) / weighted.mean((2, 3), keepdim=True)
    return (weighted * ratio).to(hidden.dtype)
