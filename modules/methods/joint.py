"""Words that are learned beside something else: a method made of two."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor, nn

from modules.interfaces import ExportOptions, Method, ParameterGroup
from modules.methods.embedding import Embeddings

PREFIX = "embeddings."
"""Before the words' names in checkpoints; the names of other methods' tensors begin otherwise."""


@dataclass(frozen=True)
class Joint:
    """A method and words; `modules.interfaces.Method` tells what each method gives."""

    main: Method
    embeddings: Embeddings

    def parameter_groups(self) -> list[ParameterGroup]:
        words = [
            replace(group, parameters=_prefixed(group.parameters))
            for group in self.embeddings.parameter_groups()
        ]
        return [*self.main.parameter_groups(), *words]

    def extra_modules(self) -> nn.Module:
        return nn.ModuleList([self.main.extra_modules(), self.embeddings.extra_modules()])

    def state_dict(self) -> dict[str, Tensor]:
        words = {PREFIX + name: rows for name, rows in self.embeddings.state_dict().items()}
        return self.main.state_dict() | words

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Raises ValueError unless names and shapes are exactly those of `state_dict`."""
        words = {name.removeprefix(PREFIX): t for name, t in state.items() if _is_word(name)}
        self.main.load_state_dict({name: t for name, t in state.items() if not _is_word(name)})
        self.embeddings.load_state_dict(words)

    def train(self, mode: bool) -> None:
        self.main.train(mode)
        self.embeddings.train(mode)

    @contextmanager
    def base_model(self) -> Iterator[None]:
        with self.main.base_model(), self.embeddings.base_model():
            yield

    @contextmanager
    def merged(self) -> Iterator[None]:
        with self.main.merged(), self.embeddings.merged():
            yield

    def after_step(self) -> None:
        self.main.after_step()
        self.embeddings.after_step()

    def export(self, path: Path, options: ExportOptions) -> list[Path]:
        """The method's files, and one for each word; a LoRA's holds the words, too, if wanted."""
        is_bundled = self.embeddings.section.bundle
        bundle = self.embeddings.trained() if is_bundled else ()
        main = self.main.export(path, replace(options, bundle=bundle))
        return [*main, *self.embeddings.export_each(path, options)]


def _is_word(name: str) -> bool:
    return name.startswith(PREFIX)


def _prefixed(parameters: Mapping[str, nn.Parameter]) -> dict[str, nn.Parameter]:
    return {PREFIX + name: rows for name, rows in parameters.items()}
