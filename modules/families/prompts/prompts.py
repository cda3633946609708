"""Encoding of captions of any length by CLIP text encoders.

CLIP reads 77 tokens at once: a start token, 75 of the text, an end token. A longer caption is cut
into chunks of 75, each is encoded separately, and the outputs are concatenated; the UNet attends to
all of them.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers import CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer
from transformers.models.clip.modeling_clip import CLIPEncoderLayer

from modules.families.prompts.tokens import (
    CHUNK,
    PADDING,
    Unit,
    assign_vector_ids,
    chunk_tokens,
    chunk_weights,
    tokenize,
)
from modules.families.prompts.vectors import (
    check_widths,
    input_table,
    inserted_vectors,
    output_table,
    vectors_digest,
)
from modules.families.prompts.weights import Weighted, apply_weights, tokenize_weighted
from modules.formats.embeddings.embedding_file import Embedding
from modules.interfaces import Conditioning
from modules.memory.to_device import to_device
from onetrainer.captions.placeholder_tokens import token_key
from onetrainer.config.base.prompt_weights import PromptWeights
from onetrainer.errors import UserError

__all__ = ["CHUNK", "ClipEncoder", "ClipPrompts"]

STAND_IN = 0  # token id where an embedding's vector is inserted; any but the end token

ROWS_AT_ONCE = 4096  # of a token table, when their norms are computed


@dataclass(frozen=True)
class ClipEncoder:
    """One of CLIP's text encoders, and which of its outputs the model was trained with.

    Attributes:
        name: "te", or "te1" and "te2" for SDXL.
        pad: Token id after a chunk's end token.
        layer: Layer of this model to use, counted from the end; 1 is the last.
        is_normed: Whether the final layer norm follows.
        is_pooled: Whether it gives the vector of the whole text.
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

    Attributes:
        embeddings: By normalized placeholder token; add them by `with_embeddings`.
        weights: How weights of words in captions are read.
    """

    tokenizer: CLIPTokenizer
    encoders: tuple[ClipEncoder, ...]
    embeddings: Mapping[str, Embedding] = field(default_factory=dict)
    weights: PromptWeights = "off"

    def with_embeddings(self, embeddings: Mapping[str, Embedding]) -> "ClipPrompts":
        """Return prompts that also know these embeddings, by placeholder token.

        Tokens match in any case, and only as whole words: not next to a letter, digit or
        underscore. Their vectors are read at every encoding, so that they can train. An embedding
        may have vectors for an encoder's input and for its output; without input vectors, zeros are
        read. Pooled vectors depend on the input alone.

        Raises:
            UserError: If a token is empty or taken, or an embedding's widths do not fit.
        """
        known = dict(self.embeddings)
        for token, embedding in embeddings.items():
            key = token_key(token)
            if not key or key in known:
                raise _token_error(token)
            check_widths(token, embedding, {each.name: width(each) for each in self.encoders})
            known[key] = embedding
        return replace(self, embeddings=known)

    def encode(self, captions: Sequence[str], *, among: Sequence[str] = ()) -> Conditioning:
        """Encode captions, with gradients where they are enabled.

        Captions with fewer chunks than the longest one, or than the longest of `among`, are padded
        with the chunk of "". `hidden` has the shape (B, chunks * 77, D), the encoders' outputs
        concatenated; `pooled` comes from the first chunk alone, at its first end token, as in other
        programs. Outputs have the encoders' dtype or autocast's; float32 if autocast uses another
        half precision than the encoders.
        """
        tokens, weights = self._read(captions, among)
        batch, chunks, length = tokens.shape
        hidden, pooled = [], None
        for encoder in self.encoders:
            with _autocast_to_encoder(encoder.model):
                chosen, last = self._encode_chunks(encoder, tokens)
                if encoder.is_pooled:
                    pooled = self._pool(encoder, last, tokens)[: len(captions)]
            chosen = chosen.view(batch, chunks, length, width(encoder))
            if weights is not None:
                chosen = apply_weights(chosen, weights, self.weights)
            hidden.append(chosen.flatten(1, 2))
        joined = torch.cat([_autocast_compatible(output) for output in hidden], dim=-1)
        return Conditioning(joined, None if pooled is None else _autocast_compatible(pooled))

    def count_tokens(self, caption: str) -> int:
        """Count a caption's tokens without start and end; each vector of an embedding is one."""
        return sum(len(unit) for unit, _ in self._tokenize([caption])[0])

    def token_vectors(self, text: str) -> dict[str, Tensor]:
        """Return each encoder's vectors for a text's tokens, (n, D), float32; n is 0 for ""."""
        units = tokenize(self.tokenizer, [text], {})[0]
        ids = torch.tensor([token for unit in units for token in unit], dtype=torch.int64)
        tables = {encoder.name: token_embeddings(encoder) for encoder in self.encoders}
        return {name: table[ids.to(table.device)].float() for name, table in tables.items()}

    @torch.no_grad()
    def outputs_of(self, vectors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return each encoder's output, (n, D), float32, for these vectors alone, (n, D)."""
        alone = replace(self, embeddings={"": Embedding("", vectors)})
        placeholder_ids = alone._placeholder_ids()
        tokens = chunk_tokens(self.tokenizer, [[placeholder_ids[""]]])
        is_inserted = tokens.flatten(0, 1) >= len(self.tokenizer)
        return {
            encoder.name: alone._encode_chunks(encoder, tokens)[0][is_inserted].float()
            for encoder in self.encoders
        }

    def token_norms(self) -> dict[str, float]:
        """Return the median norm of each encoder's token vectors."""
        return {
            encoder.name: float(_norms(token_embeddings(encoder)).median())
            for encoder in self.encoders
        }

    def settings(self) -> str:
        """Describe everything but the encoders' weights that an encoding depends on."""
        return "; ".join(
            [
                f"tokenizer {_vocabulary_digest(self.tokenizer)}, chunks of {CHUNK}",
                *(
                    f"{encoder.name}: layer {encoder.layer} from the end, normed"
                    f" {encoder.is_normed}, padded with {encoder.pad}, pooled {encoder.is_pooled}"
                    for encoder in self.encoders
                ),
                *(f"{token}: {vectors_digest(e)}" for token, e in sorted(self.embeddings.items())),
                *([] if self.weights == "off" else [f"weights as {self.weights}"]),
            ]
        )

    def _tokenize(self, captions: Sequence[str]) -> list[Weighted]:
        return tokenize_weighted(self.tokenizer, captions, self._placeholder_ids(), self.weights)

    def _read(self, captions: Sequence[str], among: Sequence[str]) -> tuple[Tensor, Tensor | None]:
        """Return captions' token ids and weights, (B, chunks, 77); None if all weights are 1.

        If ComfyUI's formula needs it, the ids of the empty prompt are one more row, the last.
        """
        units = self._tokenize([*captions, *among])
        weighted = [[[weight] * len(unit) for unit, weight in each] for each in units]
        ids: list[list[Unit]] = [[unit for unit, _ in each] for each in units]
        count = len(captions)
        weights = chunk_weights(weighted)[:count]
        if bool((weights == 1).all()):
            return chunk_tokens(self.tokenizer, ids)[:count], None
        if self.weights == "comfyui":
            ids.insert(count, [])
        return chunk_tokens(self.tokenizer, ids)[: count + (self.weights == "comfyui")], weights

    def _placeholder_ids(self) -> dict[str, list[int]]:
        lengths = {token: embedding.length for token, embedding in self.embeddings.items()}
        return assign_vector_ids(self.tokenizer, lengths)

    def _encode_chunks(self, encoder: ClipEncoder, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the chosen layer with embeddings inserted, and the last layer's normed output.

        tokens: (B, chunks, 77); all chunks are read in one batch. Both outputs: (B * chunks, 77,
        D).
        """
        places = tokens.flatten(0, 1) - len(self.tokenizer)  # negative at ordinary tokens
        places = to_device(places, encoder.model.device)
        output = self._output(encoder, tokens.flatten(0, 1), places)
        last: Tensor = output.last_hidden_state
        chosen = _chosen_layer(encoder, output)
        if table := output_table(
            self.embeddings, encoder.name, width(encoder), encoder.model.device
        ):
            chosen = table.insert(places, chosen)
        return chosen, last

    def _output(self, encoder: ClipEncoder, rows: Tensor, places: Tensor) -> Any:  # noqa: ANN401  # a library's output
        """Return the model's output for token ids, (B, 77), with vectors inserted at places."""
        device = encoder.model.device
        ids = rows.masked_fill(rows == PADDING, encoder.pad)
        ids = ids.masked_fill(rows >= len(self.tokenizer), STAND_IN)
        with self._insert_vectors(encoder, places):
            return encoder.model(
                input_ids=to_device(ids, device),
                output_hidden_states=encoder.layer > 1 or not encoder.is_normed,
            )

    def _insert_vectors(self, encoder: ClipEncoder, places: Tensor) -> AbstractContextManager[None]:
        if not self.embeddings:
            return nullcontext()
        # Also if no caption has a placeholder token: a step without any would have no gradient.
        table = input_table(self.embeddings, encoder.name, width(encoder), places.device)
        return inserted_vectors(encoder.model.get_input_embeddings(), table, places)

    def _pool(self, encoder: ClipEncoder, last: Tensor, tokens: Tensor) -> Tensor:
        """Return pooled vectors, (B, P), from the last layer's normed output, (B * chunks, 77, D).

        transformers' own pooling takes the highest id if the config has eos_token_id 2, as in old
        folders, and knows no chunks.
        """
        assert isinstance(encoder.model, CLIPTextModelWithProjection), (
            "this text encoder has no projection for pooled output"
        )
        ends = (tokens[:, 0] == self.tokenizer.eos_token_id).int().argmax(dim=-1)  # (B,)
        firsts = torch.arange(len(tokens)) * tokens.shape[1]
        pooled: Tensor = encoder.model.text_projection(
            last[to_device(firsts, last.device), to_device(ends, last.device)]
        )
        return pooled


def unread_modules(encoder: ClipEncoder) -> Iterator[nn.Module]:
    """Yield the modules after the layer that is used, none if the pooled output needs the last."""
    if encoder.is_pooled:
        return
    layers = [part for part in encoder.model.modules() if isinstance(part, CLIPEncoderLayer)]
    for layer in layers[len(layers) - encoder.layer + 1 :]:
        yield from layer.modules()
    if not encoder.is_normed:
        named = encoder.model.named_modules()
        yield from (part for name, part in named if name.endswith("final_layer_norm"))


def width(encoder: ClipEncoder) -> int:
    """Return the width of the encoder's vectors."""
    return int(encoder.model.config.hidden_size)


def token_embeddings(encoder: ClipEncoder) -> Tensor:
    """Return the encoder's token vectors, (vocabulary, D), without gradients."""
    table = encoder.model.get_input_embeddings()
    assert isinstance(table, nn.Embedding), "CLIP reads tokens from a table"
    return table.weight.detach()


@lru_cache(maxsize=2)  # writing a vocabulary takes a tenth of a second
def _vocabulary_digest(tokenizer: CLIPTokenizer) -> str:
    return hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()


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


def _norms(table: Tensor) -> Tensor:
    """Return the norm of each row in float32, in pieces: a copy of SDXL's table takes 250 MB."""
    pieces = (table[at : at + ROWS_AT_ONCE] for at in range(0, len(table), ROWS_AT_ONCE))
    return torch.cat([torch.linalg.vector_norm(rows.float(), dim=1) for rows in pieces])


def _autocast_compatible(encoded: Tensor) -> Tensor:
    """Cast to float32 unless the dtype is autocast's: torch refuses to concatenate the others."""
    device = encoded.device.type
    if not torch.is_autocast_enabled(device) or encoded.dtype == torch.get_autocast_dtype(device):
        return encoded
    return encoded.float()


def _autocast_to_encoder(model: nn.Module) -> AbstractContextManager[object]:
    """Autocast to the encoder's half precision if autocast uses another one.

    Otherwise float16 meets bfloat16: their sum is float32, which a layer norm in half precision
    refuses ("mixed dtype").
    """
    weight = next(model.parameters())
    device, dtype = weight.device.type, weight.dtype
    is_half = dtype in (torch.float16, torch.bfloat16)
    if is_half and torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) != dtype:
        return torch.autocast(device, dtype=dtype)
    return nullcontext()


def _token_error(token: str) -> UserError:
    if not token.strip():
        return UserError(
            "An embedding has no name", "Expected the token that prompts use for it", "Name it"
        )
    return UserError(
        f'Two embeddings use the token "{token}"',
        "Each needs a different token; case does not matter",
        "Remove one of them, or rename its file",
    )
