"""What is wrong with the values of a document, and with which of them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, get_args

from pydantic import BaseModel

from onetrainer.config.run.model import Model
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Problem, ProblemsError
from onetrainer.json_file import Document
from onetrainer.presets import presets

_SECTIONS_AT_ONCE = 8  # some 6 ms


class ValueCheck(NamedTuple):
    """Result of a check. config: None if a value is invalid, or nothing was checked."""

    config: TrainConfig | None = None
    problems: Sequence[Problem] = ()

    @property
    def invalid(self) -> set[str]:
        """Paths of the values that no config can have."""
        return {problem.path for problem in self.problems} if self.config is None else set()


def prepare_check() -> Iterator[None]:
    """Do in pieces what the first check would wait for."""
    import onetrainer.rules.rules  # noqa: F401 - all rules

    yield
    Model.model_rebuild()  # a small section, with which pydantic looks for its plugins
    yield
    for number, section in enumerate(dict.fromkeys(_sections(TrainConfig))):
        section.model_rebuild()
        if number % _SECTIONS_AT_ONCE == 0:
            yield


def _sections(annotation: object) -> Iterator[type[BaseModel]]:
    """Yield the sections of a type, before each those inside it, which it takes as they are."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for inner in annotation.model_fields.values():
            yield from _sections(inner.annotation)
        yield annotation
    for part in get_args(annotation):
        yield from _sections(part)


def check_values(document: Document) -> ValueCheck:
    """Check every value, then the rules between them."""
    # Imported late to keep the start of the window fast.
    from onetrainer.rules.rules import check_rules

    try:
        config = presets.resolve(document, source="")
    except ProblemsError as error:
        return ValueCheck(None, error.problems)
    return ValueCheck(config, check_rules(config))
