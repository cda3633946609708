"""Textual inversion combined with another training method."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from modules.interfaces import ExportOptions, Method, ParameterGroup
from modules.methods.embedding import Embeddings
from onetrainer.config.run.output import LoraNaming

PREFIX = "embeddings."
"""Prefix of the tokens' names in checkpoints; no other method's tensors have it."""


@dataclass(frozen=True)
class Joint(Method):
    """Another method and trained tokens."""

    main: Method
    embeddings: Embeddings

    def parameter_groups(self) -> list[ParameterGroup]:
        tokens = [
            replace(group, parameters={PREFIX + name: p for name, p in group.parameters.items()})
            for group in self.embeddings.parameter_groups()
        ]
        return [*self.main.parameter_groups(), *tokens]

    def extra_modules(self) -> nn.Module:
        return nn.ModuleList([self.main.extra_modules(), self.embeddings.extra_modules()])

    def train(self, mode: bool) -> None:
        self.main.train(mode)
        self.embeddings.train(mode)

    @contextmanager
    def base_model(self) -> Iterator[None]:
        with self.main.base_model(), self.embeddings.base_model():
            yield

    def at_strength(self, strength: float) -> AbstractContextManager[None]:
        return self.main.at_strength(strength)

    @contextmanager
    def merged(self) -> Iterator[None]:
        with self.main.merged(), self.embeddings.merged():
            yield

    def begin_microbatch(self) -> None:
        self.main.begin_microbatch()
        self.embeddings.begin_microbatch()

    def after_step(self) -> None:
        self.main.after_step()
        self.embeddings.after_step()

    def export(self, path: Path, options: ExportOptions) -> list[Path]:
        """Write the method's files and one per token; a LoRA's bundles the tokens if wanted."""
        is_bundled = self.embeddings.section.bundle
        bundle = self.embeddings.trained() if is_bundled else ()
        main = self.main.export(path, replace(options, bundle=bundle))
        return [*main, *self.embeddings.export_each(path, options)]

    def reader_notes(self, naming: LoraNaming) -> list[str]:
        return self.main.reader_notes(naming)
