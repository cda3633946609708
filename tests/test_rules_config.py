"""Every setting has a label and a help text."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from onetrainer.config.base.field_help import field_help
from onetrainer.config.base.section import Section, Ui, without_source
from onetrainer.config.fields import settings
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
        if ui is not None and not field_help(section, name).endswith((".", "!", "?")):
            yield f"{place} has no sentence under it"


# A source stands at the end, as "Source: Hu et al. 2021.", where the window leaves it out.
_PAPER = re.compile(r"et al\.|arXiv|\b[A-Z]\w+ (?:& [A-Z]\w+ )?(?:19|20)\d\d\b|\bpapers?\b")
_USUAL = re.compile(r"\busual|\bdefault\b|\brarely\b")
_MORE = re.compile(
    r"\b(?:more|less|fewer|higher|lower|larger|smaller|closer|above|below|later|off)\b", re.I
)


def vague_words(section: type[BaseModel]) -> Iterator[str]:
    """Yield what the help of a section and of its own settings does not say as it should."""
    if _PAPER.search(without_source(" ".join((section.__doc__ or "").split()))):
        yield f"{section.__name__} names a paper before its end"
    for setting in settings(section):
        place = f"{section.__name__}.{setting.path}"
        if _PAPER.search(setting.help_text):
            yield f"{place} names a paper before its end"
        is_number = setting.kind in ("integer", "amount", "number")
        if not is_number or setting.path.endswith("seed") or setting.ui.level == "hidden":
            continue
        if not _USUAL.search(setting.help_text):
            yield f"{place} has no usual value"
        if not _MORE.search(setting.help_text):
            yield f"{place} does not say what more or less of it does"


def _ui(field: FieldInfo) -> Ui | None:
    return next((mark for mark in field.metadata if isinstance(mark, Ui)), None)


EVERY = sorted(set(sections(TrainConfig)), key=lambda section: section.__name__)


@each("section", EVERY, ids=lambda section: section.__name__)
def test_every_setting_has_a_label_and_a_sentence(section):
    assert list(violations(section)) == []


@each("section", EVERY, ids=lambda section: section.__name__)
def test_helps_give_a_usual_value_and_what_more_does_and_a_paper_only_at_the_end(section):
    assert list(vague_words(section)) == []


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


class _Vague(Section):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2017, arXiv:1711.05101)."""

    rate: Annotated[int, Ui("Rate")] = 1
    """How fast it goes (Hu et al. 2021)."""

    good: Annotated[int, Ui("Good")] = 1
    """How good it is. 1 is usual, more is better. Source: Hu et al. 2021."""


def test_checker_finds_papers_and_missing_values():
    assert list(vague_words(_Vague)) == [
        "_Vague names a paper before its end",
        "_Vague.rate names a paper before its end",
        "_Vague.rate has no usual value",
        "_Vague.rate does not say what more or less of it does",
    ]


def test_checker_finds_what_is_missing():
    assert list(sections(_Outer)) == [_Outer, _Inner]
    assert list(violations(_Inner)) == ["_Inner.silent has no sentence under it"]
    assert list(violations(_Outer)) == [
        "_Outer has no docstring",
        "_Outer.unmarked has no Ui mark",
        "_Outer.nameless has no label",
    ]
