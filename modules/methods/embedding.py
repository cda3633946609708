"""Textual inversion: placeholder tokens whose vectors are trained while the model is frozen.

Source: Gal et al. 2022, arXiv:2208.01618. Besides vectors that text encoders read, vectors can
replace the encoders' output for a token; those need no gradient through the encoders.
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
from modules.interfaces import ExportOptions, Family, Method, ParameterGroup, named_parameters
from modules.memory.eval_mode import inference_mode
from modules.memory.to_device import to_device
from modules.methods.embedding_start import initial_embedding
from onetrainer.config.base.amount import known
from onetrainer.config.methods.embedding import Embeddings as EmbeddingsSection
from onetrainer.config.methods.embedding import EmbeddingToken

DRIFT = 1e-5  # relative error of a norm that rounding can cause and that is not corrected
NAME_BYTES = 60  # of a token in a file name; file systems allow 255 for the whole name


@dataclass(frozen=True)
class TrainedToken:
    """A placeholder token and its trained vectors.

    Attributes:
        embedding: The vectors that prompts read.
        trained_side: The input or output vectors of `embedding` that are, or could be, trained, by
            the encoder's name.
        trained: Their parameters, (n, D), float32; empty for a frozen token.
        initial: Their initial values.
        target_norms: Norms to preserve, (n, 1) or (1, 1).
    """

    section: EmbeddingToken
    embedding: Embedding
    trained_side: dict[str, Tensor]
    trained: Mapping[str, nn.Parameter]
    initial: Mapping[str, Tensor]
    target_norms: Mapping[str, Tensor]

    def with_norm(self, encoder: str, rows: Tensor) -> Tensor:
        """Return an encoder's vectors, (n, D), rescaled to their target norms.

        Vectors that have their norm, or are still the initial ones, stay bit for bit.
        """
        target_norms = to_device(self.target_norms[encoder], rows.device)
        initial = to_device(self.initial[encoder], rows.device)
        norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        has_changed = (rows != initial).any(dim=1, keepdim=True)
        has_drifted = (norms / target_norms - 1).abs() > DRIFT
        scale = target_norms / norms.clamp(min=torch.finfo(norms.dtype).tiny)
        return torch.where(has_changed & has_drifted, rows * scale, rows)

    def parameters(self) -> dict[str, nn.Parameter]:
        """Return the parameters by names made of token, encoder and place."""
        suffix = "_out" if self.section.place == "output" else ""
        return {f"{self.section.token}.{te}{suffix}": rows for te, rows in self.trained.items()}


@dataclass(frozen=True)
class Embeddings(Method):
    """Trained placeholder tokens of a family.

    Attributes:
        networks: Networks that gradients flow through on their way to the vectors.
    """

    section: EmbeddingsSection
    tokens: tuple[TrainedToken, ...]
    networks: tuple[nn.Module, ...]

    @staticmethod
    def attach(
        family: Family, section: EmbeddingsSection, *, seed: int
    ) -> tuple[Family, "Embeddings"]:
        """Return the family extended by the tokens, and the method that trains them.

        Call it while the encoders are as loaded: initial vectors are taken from them. Random ones
        depend on the seed, the token and the encoder.

        Raises:
            UserError: For files that hold no embedding, or one for another model.
        """
        tokens = tuple(_trained_token(family, token, seed) for token in section.tokens)
        extended_family = family.with_embeddings(
            {token.section.token: token.embedding for token in tokens}
        )
        is_read = any(token.trained and token.section.place == "input" for token in tokens)
        encoders = family.text_encoders.values() if is_read else ()
        return extended_family, Embeddings(section, tokens, (family.unet, *encoders))

    def parameter_groups(self) -> list[ParameterGroup]:
        return [
            ParameterGroup(
                "embeddings",
                token.parameters(),
                lr=token.section.lr or self.section.lr,
                stop_after=known(token.section.stop_after or self.section.stop_after),
            )
            for token in self.tokens
            if token.trained
        ]

    def extra_modules(self) -> nn.Module:
        return nn.ParameterList(named_parameters(self.parameter_groups()).values())

    def train(self, mode: bool) -> None:
        """Switch the networks too: text encoders checkpoint their layers in training mode only."""
        for network in self.networks:
            network.train(mode)

    @contextmanager
    def base_model(self) -> Iterator[None]:
        for token in self.tokens:
            token.trained_side.update(token.initial)
        try:
            yield
        finally:
            for token in self.tokens:
                token.trained_side.update(token.trained)

    def merged(self) -> AbstractContextManager[None]:
        return inference_mode(self.networks)

    @torch.no_grad()
    def after_step(self) -> None:
        """Restore each vector's norm if `preserve_norm` is on."""
        if not self.section.preserve_norm:
            return
        for token in self.tokens:
            for encoder, rows in token.trained.items():
                rows.copy_(token.with_norm(encoder, rows))

    def export(self, path: Path, options: ExportOptions) -> list[Path]:
        """Write one file of this name for a single token, and `export_each` for several."""
        trained = [token for token in self.tokens if token.trained]
        if len(trained) != 1:
            return self.export_each(path, options)
        return [self._write(path.name, path, trained[0], options)]

    def export_each(self, path: Path, options: ExportOptions) -> list[Path]:
        """Write a file for each trained token, whose name ends with the token."""
        trained = [token for token in self.tokens if token.trained]
        names = unique_file_names([token.section.token for token in trained])
        return [
            self._write(f"{path.name}-{name}", path, token, options)
            for name, token in zip(names, trained, strict=True)
        ]

    def trained(self) -> tuple[Embedding, ...]:
        """Return copies of every token's embedding; EMA weights get the preserved norms too."""
        return tuple(self._embedding(token, {}) for token in self.tokens)

    def _embedding(self, token: TrainedToken, metadata: Mapping[str, str]) -> Embedding:
        vectors, outputs = (
            {te: self._copy(token, te, rows) for te, rows in side.items()}
            for side in (token.embedding.vectors, token.embedding.outputs)
        )
        return Embedding(token.section.token, vectors, outputs, metadata)

    def _copy(self, token: TrainedToken, encoder: str, rows: Tensor) -> Tensor:
        """Copy vectors; trained ones with their target norms if these are preserved."""
        preserves_norm = self.section.preserve_norm and rows is token.trained.get(encoder)
        copied = rows.detach().clone()
        return token.with_norm(encoder, copied) if preserves_norm else copied

    def _write(self, name: str, path: Path, token: TrainedToken, options: ExportOptions) -> Path:
        target = path.with_name(f"{name}.safetensors")
        trained = [one for one in self.tokens if one.trained]
        number = next(n for n, one in enumerate(trained) if one is token)
        metadata = embedding_metadata(options.metadata, token.section.token, number)
        embedding = self._embedding(token, metadata)
        write_embedding(target, embedding, dtype=options.dtype, hashes=True)
        return target


def tokens_in_vocabulary(family: Family, section: EmbeddingsSection) -> list[str]:
    """Return those placeholder tokens that are ordinary words of the family's vocabulary.

    Training them replaces their meaning. family: As it is before it knows the tokens.
    """
    return [token.token for token in section.tokens if family.count_tokens(token.token) == 1]


def unique_file_names(tokens: list[str]) -> list[str]:
    """Return a distinct file-name part for each token: "<my cat>" as "my-cat"."""
    names: list[str] = []
    for token in tokens:
        safe = re.sub(r"[^\w.]+", "-", token).strip("-.") or "word"  # for tokens of symbols alone
        name = base = safe.encode()[:NAME_BYTES].decode(errors="ignore")
        number = 2
        while name.lower() in map(str.lower, names):  # as file systems compare
            name, number = f"{base}-{number}", number + 1
        names.append(name)
    return names


def _trained_token(family: Family, section: EmbeddingToken, seed: int) -> TrainedToken:
    start = initial_embedding(family, section, seed=seed)
    devices = {
        te: next(encoder.parameters()).device for te, encoder in family.text_encoders.items()
    }
    vectors = {te: rows.to(devices[te]) for te, rows in start.vectors.items()}
    outputs = {te: rows.to(devices[te]) for te, rows in start.outputs.items()}
    trained_side = outputs if section.place == "output" else vectors
    initial = dict(trained_side)
    trained = {te: nn.Parameter(rows.clone()) for te, rows in trained_side.items() if section.train}
    trained_side.update(trained)
    target_norms = {
        te: torch.linalg.vector_norm(rows, dim=1, keepdim=True) for te, rows in initial.items()
    }
    if section.place == "input":
        # The vocabulary's median: some initial texts have much smaller norms.
        norms = family.vocabulary.token_norms()
        target_norms = {te: rows.new_tensor([[norms[te]]]) for te, rows in initial.items()}
    embedding = Embedding(section.token, vectors, outputs)
    return TrainedToken(section, embedding, trained_side, trained, initial, target_norms)
