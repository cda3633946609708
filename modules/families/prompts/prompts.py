"""Captions to the text encoders' output, however long they are.

CLIP reads 77 tokens at once: a start, 75 of the text, an end. A longer caption is cut into chunks
of 75, each is encoded alone, and the outputs are joined; the UNet attends to all of them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

from modules.families.prompts.tokens import CHUNK, PADDING, chunk_tokens, tokenize, vector_ids
from modules.families.prompts.vectors import (
    check_widths,
    input_table,
    output_table,
    placing,
    vectors_digest,
)
from modules.formats.embeddings.embedding_file import Embedding
from modules.interfaces import Conditioning
from modules.memory.to_device import sent
from onetrainer.captions.placeholder_tokens import word_key
from onetrainer.errors import UserError

__all__ = ["CHUNK", "ClipEncoder", "ClipPrompts"]

STAND_IN = 0  # the id an encoder reads where an embedding's vector will be; any but the end's

ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class ClipEncoder:
    """One of CLIP's text encoders, and what of its output a model was trained with.

    name: "te", or "te1" and "te2" for SDXL. pad: the id after a chunk's end token.
    layer: which of this model's layers, from the end: 1 is the last one. is_normed: whether the
    final layer norm follows. is_pooled: whether it gives the vector of the whole text.
    """

    name: str
    model: CLIPTextModel | CLIPTextModelWithProjection
    pad: int
    layer: int
    is_normed: bool
    is_pooled: bool = False


@dataclass(frozen=True)
class ClipPrompts:
    """CLIP's tokenizer and the text encoders that read its tokens.

    embeddings: by the key of their word; `with_embeddings` checks them and adds them.
    """

    tokenizer: CLIPTokenizer
    encoders: tuple[ClipEncoder, ...]
    embeddings: Mapping[str, Embedding] = field(default_factory=dict)

    def with_embeddings(self, embeddings: Mapping[str, Embedding]) -> "ClipPrompts":
        """The same prompts, which also know these words; raises UserError where one cannot fit.

        A word counts in upper and lower case, and only where no letter, digit or underscore makes
        it part of another word. Its vectors are read at every encoding, so that they can train.
        An embedding with vectors for an encoder's input and its output gives both; one without
        vectors for the input is read as zeros. Pooled vectors come from the input alone.
        """
        known = dict(self.embeddings)
        for word, embedding in embeddings.items():
            key = word_key(word)
            if not key or key in known:
                raise _word_error(word)
            check_widths(word, embedding, {each.name: width(each) for each in self.encoders})
            known[key] = embedding
        return replace(self, embeddings=known)

    def encode(self, captions: Sequence[str], *, among: Sequence[str] = ()) -> Conditioning:
        """hidden: (B, chunks * 77, D), the encoders' outputs side by side; gradients flow.

        Captions with fewer chunks than the longest one, or than the longest of `among`, are
        filled up with the chunk of "". pooled: of the first chunk alone, at its first end token,
        as programs that draw take it. In the encoders' dtype, or what autocast makes of it;
        float32 where autocast has another half precision than they.
        """
        units = tokenize(self.tokenizer, [*captions, *among], self._words())
        tokens = chunk_tokens(self.tokenizer, units)[: len(captions)]  # (B, chunks, 77)
        batch, chunks, length = tokens.shape
        hidden, pooled = [], None
        for encoder in self.encoders:
            with _own_autocast(encoder.model):
                chosen, last = self._encoded(encoder, tokens)
                if encoder.is_pooled:
                    pooled = self._pool(encoder, last, tokens)
            hidden.append(chosen.view(batch, chunks * length, width(encoder)))
        joined = torch.cat([_fitting(one) for one in hidden], dim=-1)
        return Conditioning(joined, None if pooled is None else _fitting(pooled))

    def count_tokens(self, caption: str) -> int:
        """How many tokens a caption has, without start and end; each vector counts as one."""
        return sum(map(len, tokenize(self.tokenizer, [caption], self._words())[0]))

    def token_vectors(self, text: str) -> dict[str, Tensor]:
        """Each encoder's vectors for the tokens of a text, (n, D), float32; n is 0 for ""."""
        units = tokenize(self.tokenizer, [text], {})[0]
        ids = torch.tensor([token for unit in units for token in unit], dtype=torch.int64)
        tables = {encoder.name: token_table(encoder) for encoder in self.encoders}
        return {name: table[ids.to(table.device)].float() for name, table in tables.items()}

    @torch.no_grad()
    def outputs_of(self, vectors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What each encoder says where it reads these vectors and nothing else, (n, D), float32.

        vectors: (n, D) each, by the encoder's name.
        """
        alone = replace(self, embeddings={"": Embedding("", vectors)})
        words = alone._words()
        tokens = chunk_tokens(self.tokenizer, [[words[""]]])
        is_vector = tokens.flatten(0, 1) >= len(self.tokenizer)
        return {
            encoder.name: alone._encoded(encoder, tokens)[0][is_vector].float()
            for encoder in self.encoders
        }

    def token_norms(self) -> dict[str, float]:
        """The median length of each encoder's vectors for tokens."""
        return {
            encoder.name: float(_norms(token_table(encoder)).median()) for encoder in self.encoders
        }

    def settings(self) -> str:
        """All besides the encoders' weights that decides an encoding."""
        vocabulary = self.tokenizer.backend_tokenizer.to_str()
        digest = hashlib.sha256(vocabulary.encode()).hexdigest()
        return "; ".join(
            [
                f"tokenizer {digest}, chunks of {CHUNK}",
                *map(_encoder_settings, self.encoders),
                *(f"{word}: {vectors_digest(e)}" for word, e in sorted(self.embeddings.items())),
            ]
        )

    def _words(self) -> dict[str, list[int]]:
        lengths = {word: embedding.length for word, embedding in self.embeddings.items()}
        return vector_ids(self.tokenizer, lengths)

    def _encoded(self, encoder: ClipEncoder, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The chosen layer with outputs replaced, and the last one's normed output, untouched.

        tokens: (B, chunks, 77); all chunks are read in one batch. Both (B * chunks, 77, D).
        """
        places = tokens.flatten(0, 1) - len(self.tokenizer)  # negative where a token is
        places = sent(places, encoder.model.device)
        output = self._read(encoder, tokens.flatten(0, 1), places)
        last: Tensor = output.last_hidden_state
        chosen = _chosen_layer(encoder, output)
        if table := output_table(
            self.embeddings, encoder.name, width(encoder), encoder.model.device
        ):
            chosen = table.put(places, chosen)
        return chosen, last

    def _read(self, encoder: ClipEncoder, rows: Tensor, places: Tensor) -> Any:  # noqa: ANN401  # a library's output
        """The model's output for rows of tokens, (B, 77), with vectors in their places."""
        device = encoder.model.device
        ids = rows.masked_fill(rows == PADDING, encoder.pad)
        ids = ids.masked_fill(rows >= len(self.tokenizer), STAND_IN)
        with self._placing(encoder, places):
            return encoder.model(
                input_ids=sent(ids, device),
                output_hidden_states=encoder.layer > 1 or not encoder.is_normed,
            )

    def _placing(self, encoder: ClipEncoder, places: Tensor) -> AbstractContextManager[None]:
        if not self.embeddings:
            return nullcontext()
        # Also where no caption has a word: a step without any would have no gradient.
        table = input_table(self.embeddings, encoder.name, width(encoder), places.device)
        return placing(encoder.model.get_input_embeddings(), table, places)

    def _pool(self, encoder: ClipEncoder, last: Tensor, tokens: Tensor) -> Tensor:
        """(B, P), from the last layer's normed output, (B * chunks, 77, D).

        transformers' own pooling takes the highest id where the config says eos_token_id 2, as
        old folders do, and knows nothing of chunks.
        """
        assert isinstance(encoder.model, CLIPTextModelWithProjection), "no projection to pool with"
        ends = (tokens[:, 0] == self.tokenizer.eos_token_id).int().argmax(dim=-1)  # (B,)
        firsts = torch.arange(len(tokens)) * tokens.shape[1]
        pooled: Tensor = encoder.model.text_projection(
            last[sent(firsts, last.device), sent(ends, last.device)]
        )
        return pooled


def width(encoder: ClipEncoder) -> int:
    """How wide the encoder's vectors are."""
    return int(encoder.model.config.hidden_size)


def token_table(encoder: ClipEncoder) -> Tensor:
    """The encoder's vectors for tokens, (vocabulary, D), without gradients."""
    table = encoder.model.get_input_embeddings()
    assert isinstance(table, nn.Embedding), "CLIP reads tokens from a table"
    return table.weight.detach()


def _chosen_layer(encoder: ClipEncoder, output: Any) -> Tensor:  # noqa: ANN401  # a library's output
    if encoder.layer == 1 and encoder.is_normed:
        last: Tensor = output.last_hidden_state
        return last
    hidden: Tensor = output.hidden_states[-encoder.layer]
    if not encoder.is_normed:
        return hidden
    # transformers 5.6 took the level `text_model` out of one of the two classes.
    model = encoder.model
    core = model.text_model if isinstance(model, CLIPTextModelWithProjection) else model
    normed: Tensor = core.final_layer_norm(hidden)
    return normed


def _encoder_settings(encoder: ClipEncoder) -> str:
    return (
        f"{encoder.name}: layer {encoder.layer} from the end, normed {encoder.is_normed},"
        f" padded with {encoder.pad}, pooled {encoder.is_pooled}"
    )


def _norms(table: Tensor) -> Tensor:
    """The length of each row, float32; in pieces, since a copy of SDXL's table takes 250 MB."""
    pieces = (table[at : at + ROWS_AT_ONCE] for at in range(0, len(table), ROWS_AT_ONCE))
    return torch.cat([torch.linalg.vector_norm(rows.float(), dim=1) for rows in pieces])


def _fitting(encoded: Tensor) -> Tensor:
    """Float32 of a half precision that is not autocast's: torch refuses to join those."""
    kind = encoded.device.type
    if not torch.is_autocast_enabled(kind) or encoded.dtype == torch.get_autocast_dtype(kind):
        return encoded
    return encoded.float()


def _own_autocast(model: nn.Module) -> AbstractContextManager[object]:
    """Autocast to an encoder's own half precision where another one is asked for.

    Otherwise float16 meets bfloat16: their sum is float32, which a layer norm in half precision
    refuses ("mixed dtype").
    """
    weight = next(model.parameters())
    kind, dtype = weight.device.type, weight.dtype
    is_half = dtype in (torch.float16, torch.bfloat16)
    if is_half and torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) != dtype:
        return torch.autocast(kind, dtype=dtype)
    return nullcontext()


def _word_error(word: str) -> UserError:
    if not word.strip():
        return UserError(
            "An embedding has no name", "A word that stands for it was expected", "Give it a name"
        )
    return UserError(
        f'Two embeddings are called "{word}"',
        "Each needs a word of its own; upper and lower case count as the same",
        "Leave one of them out, or rename its file",
    )
