"""Padding and concatenation of encoded texts."""

from collections.abc import Sequence

import torch

from modules.interfaces import Conditioning


def pad(encoded: Conditioning, empty: Conditioning, tokens: int) -> Conditioning:
    """Pad a text's encoding, (1, T, D), with that of the empty prompt to so many tokens.

    Texts are encoded in chunks of one length, 77 tokens for CLIP; models know the empty prompt's
    chunk as the end of the text, whereas zeros would be unknown to them.
    """
    missing = tokens - encoded.hidden.shape[1]
    if not missing:
        return encoded
    padding = empty.hidden.repeat(1, missing // empty.hidden.shape[1], 1)
    return Conditioning(torch.cat([encoded.hidden, padding], dim=1), encoded.pooled)


def concatenate(encoded: Sequence[Conditioning]) -> Conditioning:
    """Concatenate encodings of one length to a batch."""
    pooled = [each.pooled for each in encoded if each.pooled is not None]
    return Conditioning(
        torch.cat([each.hidden for each in encoded]), torch.cat(pooled) if pooled else None
    )
