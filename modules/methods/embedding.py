"""Textual inversion: words whose vectors are learned, while the model stays as it is.

Source: Gal et al. 2022, arXiv:2208.01618. Besides vectors that text encoders read, there are ones
that replace what the encoders say of the word; those need no gradient through the encoders.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from modules.formats.embeddings.embedding_file import Embedding, write_embedding
from modules.formats.embeddings.modelspec import embedding_metadata
from modules.interfaces import ExportOptions, Family, ParameterGroup
from modules.memory.to_device import to_device
from modules.methods.embedding_start import initial_embedding
from modules.methods.layers.inference_mode import inference_mode
from onetrainer.config.methods.embedding import Embeddings as EmbeddingsSection
from onetrainer.config.methods.embedding import Word

DRIFT = 1e-5  # of a vector's length: what rounding may do, and the next step need not mend
NAME_BYTES = 60  # of a word in a file's name; file systems allow 255 for the whole name


@dataclass(frozen=True)
class TrainedToken:
    """A word, and what of it is trained.

    live: what prompts read. side: those vectors of `live` that are trained, or would be, by the
    encoder's name. trained: their parameters, (n, D), float32; none for a word that stays as it
    is. initial: what they began as. lengths: what each row's length is kept at, (n, 1) or (1, 1).
    """

    section: Word
    live: Embedding
    side: dict[str, Tensor]
    trained: Mapping[str, nn.Parameter]
    initial: Mapping[str, Tensor]
    lengths: Mapping[str, Tensor]

    def with_length(self, encoder: str, rows: Tensor) -> Tensor:
        """An encoder's vectors, (n, D), made as long as they are kept.

        Those that have their length, or are what they began as, stay bit for bit.
        """
        lengths = to_device(self.lengths[encoder], rows.device)
        initial = to_device(self.initial[encoder], rows.device)
        own = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        has_begun = (rows != initial).any(dim=1, keepdim=True)
        is_other = (own / lengths - 1).abs() > DRIFT
        scale = lengths / own.clamp(min=torch.finfo(own.dtype).tiny)
        return torch.where(has_begun & is_other, rows * scale, rows)

    def parameters(self) -> dict[str, nn.Parameter]:
        """The parameters by names that tell word, encoder and place."""
        suffix = "_out" if self.section.place == "output" else ""
        return {f"{self.section.token}.{te}{suffix}": rows for te, rows in self.trained.items()}


@dataclass(frozen=True)
class Embeddings:
    """Words of a family; `modules.interfaces.Method` tells what each method gives.

    networks: what gradients flow through on their way to the vectors.
    """

    section: EmbeddingsSection
    words: tuple[TrainedToken, ...]
    networks: tuple[nn.Module, ...]

    @staticmethod
    def attach(
        family: Family, section: EmbeddingsSection, *, seed: int
    ) -> tuple[Family, "Embeddings"]:
        """The family that also knows the words, and the method that trains them.

        To be done while the encoders are still as they were loaded: vectors begin as theirs.
        Random ones depend on the seed, the word and the encoder. Raises UserError for files that
        hold no embedding, or one for another model.
        """
        words = tuple(_word(family, word, seed) for word in section.tokens)
        knowing = family.with_embeddings({word.section.token: word.live for word in words})
        is_read = any(word.trained and word.section.place == "input" for word in words)
        encoders = family.text_encoders.values() if is_read else ()
        return knowing, Embeddings(section, words, (family.unet, *encoders))

    def parameter_groups(self) -> list[ParameterGroup]:
        return [
            ParameterGroup(
                "embeddings",
                word.parameters(),
                lr=word.section.lr or self.section.lr,
                stop_after=word.section.stop_after or self.section.stop_after,
            )
            for word in self.words
            if word.trained
        ]

    def extra_modules(self) -> nn.Module:
        return nn.ParameterList(self._parameters().values())

    def state_dict(self) -> dict[str, Tensor]:
        return {name: rows.detach() for name, rows in self._parameters().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Raises ValueError unless names and shapes are exactly those of `state_dict`."""
        own = self.state_dict()
        if own.keys() != state.keys():
            raise ValueError(f"other words: {sorted(own.keys() ^ state.keys())[:4]}")
        for name, rows in own.items():
            if rows.shape != state[name].shape:
                raise ValueError(f"{name}: {state[name].shape} is not {rows.shape}")
            rows.copy_(state[name])

    def train(self, mode: bool) -> None:
        """Also of the networks: text encoders checkpoint their layers in training mode only."""
        for network in self.networks:
            network.train(mode)

    @contextmanager
    def base_model(self) -> Iterator[None]:
        for word in self.words:
            word.side.update(word.initial)
        try:
            yield
        finally:
            for word in self.words:
                word.side.update(word.trained)

    def merged(self) -> AbstractContextManager[None]:
        return inference_mode(self.networks)

    @torch.no_grad()
    def after_step(self) -> None:
        """Keeps each vector's length, if that is wanted; what has its length stays bit for bit."""
        if not self.section.preserve_norm:
            return
        for word in self.words:
            for encoder, rows in word.trained.items():
                rows.copy_(word.with_length(encoder, rows))

    def export(self, path: Path, options: ExportOptions) -> list[Path]:
        """A file of this name for a single word, and `export_each` for several."""
        trained = [word for word in self.words if word.trained]
        if len(trained) != 1:
            return self.export_each(path, options)
        return [self._write(path.name, path, trained[0], options)]

    def export_each(self, path: Path, options: ExportOptions) -> list[Path]:
        """A file for each word that trains, with the word behind the name."""
        trained = [word for word in self.words if word.trained]
        names = file_names([word.section.token for word in trained])
        return [
            self._write(f"{path.name}-{name}", path, word, options)
            for name, word in zip(names, trained, strict=True)
        ]

    def trained(self) -> tuple[Embedding, ...]:
        """Copies of every word as it is now; an average has the length that its vectors keep."""
        return tuple(self._embedding(word, {}) for word in self.words)

    def _parameters(self) -> dict[str, nn.Parameter]:
        return {name: rows for word in self.words for name, rows in word.parameters().items()}

    def _embedding(self, word: TrainedToken, metadata: Mapping[str, str]) -> Embedding:
        vectors, outputs = (
            {te: self._kept(word, te, rows) for te, rows in side.items()}
            for side in (word.live.vectors, word.live.outputs)
        )
        return Embedding(word.section.token, vectors, outputs, metadata)

    def _kept(self, word: TrainedToken, encoder: str, rows: Tensor) -> Tensor:
        """A copy of vectors; of trained ones with their length, where it is to be kept."""
        is_kept = self.section.preserve_norm and rows is word.trained.get(encoder)
        copied = rows.detach().clone()
        return word.with_length(encoder, copied) if is_kept else copied

    def _write(self, name: str, path: Path, word: TrainedToken, options: ExportOptions) -> Path:
        target = path.with_name(f"{name}.safetensors")
        metadata = embedding_metadata(options.metadata, word.section.token)
        embedding = self._embedding(word, metadata)
        write_embedding(target, embedding, dtype=options.dtype, hashes=True)
        return target


def tokens_in_vocabulary(family: Family, section: EmbeddingsSection) -> list[str]:
    """Those of the words that the family's vocabulary holds: their own meaning gets lost.

    family: as it is before it knows them.
    """
    return [word.token for word in section.tokens if family.count_tokens(word.token) == 1]


def file_names(words: list[str]) -> list[str]:
    """A part of a file's name for each word, all different: "<my cat>" as "my-cat"."""
    names: list[str] = []
    for word in words:
        safe = re.sub(r"[^\w.]+", "-", word).strip("-.") or "word"
        name = base = safe.encode()[:NAME_BYTES].decode(errors="ignore")
        number = 2
        while name.lower() in map(str.lower, names):  # as file systems compare
            name, number = f"{base}-{number}", number + 1
        names.append(name)
    return names


def _word(family: Family, section: Word, seed: int) -> TrainedToken:
    begun = initial_embedding(family, section, seed=seed)
    devices = {
        te: next(encoder.parameters()).device for te, encoder in family.text_encoders.items()
    }
    vectors = {te: rows.to(devices[te]) for te, rows in begun.vectors.items()}
    outputs = {te: rows.to(devices[te]) for te, rows in begun.outputs.items()}
    side = outputs if section.place == "output" else vectors
    initial = dict(side)
    trained = {te: nn.Parameter(rows.clone()) for te, rows in side.items() if section.train}
    side.update(trained)
    lengths = {
        te: torch.linalg.vector_norm(rows, dim=1, keepdim=True) for te, rows in initial.items()
    }
    if section.place == "input":
        # What known words are: some texts' own vectors are much shorter.
        norms = family.vocabulary.token_norms()
        lengths = {te: rows.new_tensor([[norms[te]]]) for te, rows in initial.items()}
    live = Embedding(section.token, vectors, outputs)
    return TrainedToken(section, live, side, trained, initial, lengths)
