"""Every setting has a label and a help text."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from onetrainer.config.base.section import Section, Ui
from onetrainer.config.train import TrainConfig
from tests.each import each


def sections(section: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield a section and all sections inside it, including all variants."""
    yield section
    for field in section.model_fields.values():
        for inner in inner_sections(field.annotation):
            yield from sections(inner)


def inner_sections(annotation: Any) -> list[type[BaseModel]]:
    """Return the sections that a type mentions: itself, in a union, in a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in inner_sections(part)]


def violations(section: type[BaseModel]) -> Iterator[str]:
    """Yield what a section's fields lack."""
    if not (section.__doc__ or "").strip():
        yield f"{section.__name__} has no docstring"
    for name, field in section.model_fields.items():
        place = f"{section.__name__}.{name}"
        ui = _ui(field)
        if ui is None and name != "kind" and not inner_sections(field.annotation):
            yield f"{place} has no Ui mark"
        if ui is not None and not ui.label.strip():
            yield f"{place} has no label"
        if ui is not None and not (field.description or "").strip().endswith((".", "!", "?")):
            yield f"{place} has no sentence under it"


def _ui(field: FieldInfo) -> Ui | None:
    return next((mark for mark in field.metadata if isinstance(mark, Ui)), None)


EVERY = sorted(set(sections(TrainConfig)), key=lambda section: section.__name__)


@each("section", EVERY, ids=lambda section: section.__name__)
def test_every_setting_has_a_label_and_a_sentence(section):
    assert list(violations(section)) == []


@each("section", EVERY, ids=lambda section: section.__name__)
def test_sections_cannot_change_and_refuse_unknown_keys(section):
    assert issubclass(section, Section)
    assert section.model_config.get("frozen") is True
    assert section.model_config.get("extra") == "forbid"


class _Inner(Section):
    """Found through a list."""

    kind: Literal["inner"] = "inner"
    silent: Annotated[int, Ui("Silent")] = 1


class _Outer(Section):
    unmarked: int = 1
    """It has a sentence, and no mark."""

    nameless: Annotated[int, Ui(" ")] = 1
    """It has a sentence."""

    good: Annotated[int, Ui("Good")] = 1
    """It has both."""

    inner: list[_Inner] = []  # noqa: RUF012 - pydantic copies defaults


def test_checker_finds_what_is_missing():
    assert list(sections(_Outer)) == [_Outer, _Inner]
    assert list(violations(_Inner)) == ["_Inner.silent has no sentence under it"]
    assert list(violations(_Outer)) == [
        "_Outer has no docstring",
        "_Outer.unmarked has no Ui mark",
        "_Outer.nameless has no label",
    ]
