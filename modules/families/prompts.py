"""Captions to the text encoders' output, however long they are.

CLIP reads 77 tokens at once: a start, 75 of the text, an end. A longer caption is cut into chunks
of 75, each is encoded alone, and the outputs are joined; the UNet attends to all of them.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

from modules.families.prompt_tokens import (
    CHUNK,
    PADDING,
    chunk_tokens,
    tokenize,
    vector_ids,
    word_key,
)
from modules.formats.embedding_file import Embedding, family_words
from modules.interfaces import Conditioning
from onetrainer.errors import UserError

__all__ = ["CHUNK", "ClipEncoder", "ClipPrompts"]

STAND_IN = 0  # the id an encoder reads where an embedding's vector will be; any but the end's


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
        """
        known = dict(self.embeddings)
        for word, embedding in embeddings.items():
            key = word_key(word)
            if not key or key in known:
                raise _word_error(word)
            _check_widths(word, embedding, self.encoders)
            known[key] = embedding
        return replace(self, embeddings=known)

    def encode(self, captions: Sequence[str], *, among: Sequence[str] = ()) -> Conditioning:
        """hidden: (B, chunks * 77, D), the encoders' outputs side by side; gradients flow.

        Captions with fewer chunks than the longest one, or than the longest of `among`, are
        filled up with the chunk of "". pooled: of the first chunk alone, at its first end token,
        as programs that draw take it. In the encoders' dtype, or what autocast makes of it.
        """
        words = self._words()
        units = tokenize(self.tokenizer, [*captions, *among], words)
        tokens = chunk_tokens(self.tokenizer, units)[: len(captions)]  # (B, chunks, 77)
        batch, chunks, length = tokens.shape
        hidden, pooled = [], None
        for encoder in self.encoders:
            output = self._read(encoder, tokens)
            chosen = _chosen_layer(encoder, output)
            hidden.append(chosen.view(batch, chunks * length, width(encoder)))
            if encoder.is_pooled:
                pooled = self._pool(encoder, output.last_hidden_state, tokens)
        return Conditioning(torch.cat(hidden, dim=-1), pooled)

    def count_tokens(self, caption: str) -> int:
        """How many tokens a caption has, without start and end; each vector counts as one."""
        return sum(map(len, tokenize(self.tokenizer, [caption], self._words())[0]))

    def settings(self) -> str:
        """All besides the encoders' weights that decides an encoding."""
        vocabulary = self.tokenizer.backend_tokenizer.to_str()
        return "; ".join(
            [
                f"tokenizer {_digest(vocabulary.encode())}, chunks of {CHUNK}",
                *map(_encoder_settings, self.encoders),
                *(f"{word}: {_vectors_digest(e)}" for word, e in sorted(self.embeddings.items())),
            ]
        )

    def _words(self) -> dict[str, list[int]]:
        lengths = {word: embedding.length for word, embedding in self.embeddings.items()}
        return vector_ids(self.tokenizer, lengths)

    def _read(self, encoder: ClipEncoder, tokens: Tensor) -> Any:  # noqa: ANN401  # a library's output
        """The model's output for tokens, (B, chunks, 77), all chunks in one batch."""
        rows = tokens.flatten(0, 1)
        vectors = rows - len(self.tokenizer)  # which of all vectors; negative where a token is
        ids = rows.masked_fill(rows == PADDING, encoder.pad).masked_fill(vectors >= 0, STAND_IN)
        device = encoder.model.device
        has_vectors = bool((vectors >= 0).any())  # on the CPU
        with self._placing(encoder, vectors.to(device)) if has_vectors else nullcontext():
            return encoder.model(
                input_ids=ids.to(device),
                output_hidden_states=encoder.layer > 1 or not encoder.is_normed,
            )

    @contextmanager
    def _placing(self, encoder: ClipEncoder, vectors: Tensor) -> Iterator[None]:
        """Meanwhile the encoder's token table gives vectors where `vectors` is not negative."""
        table = torch.cat(
            [e.vectors[encoder.name].to(vectors.device) for e in self.embeddings.values()]
        )

        def place(_table: nn.Module, _ids: object, given: Tensor) -> Tensor:
            chosen = table[vectors.clamp(min=0)].to(given.dtype)
            return torch.where(vectors.unsqueeze(-1) >= 0, chosen, given)

        # A hook, because transformers' forward takes no input embeddings, and the table must stay
        # what it is: its weights are saved, and others read the same encoder without vectors.
        hook = encoder.model.get_input_embeddings().register_forward_hook(place)
        try:
            yield
        finally:
            hook.remove()

    def _pool(self, encoder: ClipEncoder, last: Tensor, tokens: Tensor) -> Tensor:
        """(B, P), from the last layer's normed output, (B * chunks, 77, D).

        transformers' own pooling takes the highest id where the config says eos_token_id 2, as
        old folders do, and knows nothing of chunks.
        """
        assert isinstance(encoder.model, CLIPTextModelWithProjection), "no projection to pool with"
        ends = (tokens[:, 0] == self.tokenizer.eos_token_id).int().argmax(dim=-1)  # (B,)
        firsts = torch.arange(len(tokens)) * tokens.shape[1]
        pooled: Tensor = encoder.model.text_projection(
            last[firsts.to(last.device), ends.to(last.device)]
        )
        return pooled


def width(encoder: ClipEncoder) -> int:
    """How wide the encoder's vectors are."""
    return int(encoder.model.config.hidden_size)


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


def _vectors_digest(embedding: Embedding) -> str:
    rows = [vectors.detach().float().cpu() for _, vectors in sorted(embedding.vectors.items())]
    return _digest(b"".join(row.contiguous().numpy().tobytes() for row in rows))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _check_widths(word: str, embedding: Embedding, encoders: tuple[ClipEncoder, ...]) -> None:
    needed = {encoder.name: width(encoder) for encoder in encoders}
    given = {name: vectors.shape[1] for name, vectors in embedding.vectors.items()}
    if all(given.get(name) == needed[name] for name in needed):
        return
    vectors = f"vectors of {_listed(given)} numbers" if given else "no vectors to read"
    raise UserError(
        f'The embedding "{word}" has {vectors} ({embedding.family})',
        f"This model reads vectors of {_listed(needed)} ({family_words(needed)})",
        "Choose an embedding that was trained for this kind of model",
    )


def _listed(widths: Mapping[str, int]) -> str:
    return " and ".join(str(value) for _, value in sorted(widths.items()))


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
