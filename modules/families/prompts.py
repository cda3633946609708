"""Captions to the text encoder's output, however long they are.

CLIP reads 77 tokens at once: a start, 75 of the text, an end. A longer caption is cut into chunks
of 75, each is encoded alone, and the outputs are joined; the UNet attends to all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import CLIPTextModel, CLIPTokenizer

CHUNK = 75


@dataclass(frozen=True)
class ClipPrompts:
    """CLIP's tokenizer and text encoder, as SD 1.x uses them: the normed output of all layers."""

    tokenizer: CLIPTokenizer
    encoder: CLIPTextModel

    def encode(self, captions: Sequence[str], *, among: Sequence[str] = ()) -> Tensor:
        """(B, chunks * 77, D), in the encoder's dtype; gradients flow where they are enabled.

        Captions with fewer chunks than the longest one, or than the longest of `among`, are
        filled up with the chunk of "".
        """
        tokens = chunk_tokens(self.tokenizer, [*captions, *among])[: len(captions)]
        # (B, chunks, 77)
        batch, chunks, length = tokens.shape
        tokens = tokens.view(batch * chunks, length).to(self.encoder.device)
        hidden: Tensor = self.encoder(input_ids=tokens).last_hidden_state
        return hidden.view(batch, chunks * length, -1)


def chunk_tokens(tokenizer: CLIPTokenizer, captions: Sequence[str]) -> Tensor:
    """The captions' tokens, (B, chunks, 77), int64, with a start and an end in every chunk."""
    # verbose=False: the tokenizer warns of texts longer than 77 tokens, which chunks provide for.
    texts: list[list[int]] = tokenizer(list(captions), add_special_tokens=False, verbose=False)[
        "input_ids"
    ]
    chunks = max(1, *(-(-len(text) // CHUNK) for text in texts))
    return torch.tensor([[_chunk(tokenizer, text, n) for n in range(chunks)] for text in texts])


def _chunk(tokenizer: CLIPTokenizer, text: list[int], index: int) -> list[int]:
    """One chunk of a text, padded with the end token as SD 1.x was trained."""
    part = text[index * CHUNK : (index + 1) * CHUNK]
    end = int(tokenizer.eos_token_id)
    return [int(tokenizer.bos_token_id), *part, *[end] * (CHUNK + 1 - len(part))]
