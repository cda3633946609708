"""The settings as data: what the window, the messages and the reference all read."""

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Interval, Le, Lt, MaxLen, MinLen, MultipleOf
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from onetrainer.config.base.section import Section, Ui
from onetrainer.config.base.variants import KIND, as_section, default_kind, variants

Kind = Literal["yes-no", "integer", "number", "text", "choice", "list"]


@dataclass(frozen=True)
class Setting:
    """One setting.

    path: dotted, as in `--set` ("optimizer.lr"). kind: what it holds. choices: of a "choice".
    item: the section each entry of a "list" is. is_optional: whether empty (null) is a value.
    needs: where the setting exists only in some kinds of a section: the section's path, and those
    kinds; it must be one of them in each.
    lowest, highest: the range, where `above_lowest` and `below_highest` exclude its ends.
    """

    path: str
    kind: Kind
    ui: Ui
    help: str
    default: Any
    choices: tuple[str, ...] = ()
    item: type[Section] | None = None
    is_optional: bool = False
    lowest: float | None = None
    highest: float | None = None
    above_lowest: bool = False
    below_highest: bool = False
    multiple_of: float | None = None
    max_length: int | None = None
    needs: tuple[tuple[str, frozenset[str]], ...] = ()

    @property
    def expected(self) -> str:
        """What the setting takes, in words: "a whole number from 1 to 1024"."""
        match self.kind:
            case "yes-no":
                return "true or false"
            case "choice":
                return "one of " + ", ".join(self._named(choice) for choice in self.choices)
            case "list":
                most = f" of at most {self.max_length}" if self.max_length else ""
                return f"a list{most}, in [ ]"
            case "text":
                return "text" + (
                    f" of at most {self.max_length} characters" if self.max_length else ""
                )
        noun = "a whole number" if self.kind == "integer" else "a number"
        if self.multiple_of not in (None, 1):
            noun = f"a multiple of {self.multiple_of:g}"
        return noun + self._range() + (", or nothing" if self.is_optional else "")

    def word(self, value: Any) -> str:
        """A value of a "choice" as people call it: "SD 1.5" for "sd15"; any other as text."""
        return self.ui.choices.get(str(value), str(value))

    @property
    def help_in_words(self) -> str:
        """The help as the window shows it, where choices have words: “automatic” for "auto"."""
        text = self.help
        for value in self.choices:
            text = text.replace(f'"{value}"', f"“{self.word(value)}”")
        return text

    def _named(self, choice: str) -> str:
        word = self.word(choice)
        is_same = _spoken(word) == _spoken(choice)
        return f'"{choice}"' if is_same else f'"{choice}" ({word})'

    def _range(self) -> str:
        low = _figure(self.lowest)
        high = _figure(self.highest)
        if low and high and not self.above_lowest and not self.below_highest:
            return f" from {low} to {high}"
        words = []
        if low:
            words.append(f"above {low}" if self.above_lowest else f"at least {low}")
        if high:
            words.append(f"below {high}" if self.below_highest else f"at most {high}")
        return " " + " and ".join(words) if words else ""


def settings(
    section: type[BaseModel], prefix: str = "", *, kinds: Mapping[str, str] | None = None
) -> Iterator[Setting]:
    """Every setting of a section and of the sections in it, in the order of the file.

    kinds: of the sections that come in kinds, by their paths, as `kinds_of` gives them: then there
    are the settings of these kinds alone. Without it there are those of all kinds, each path once,
    as the first kind that has it defines it; the default kind counts as the first.
    """
    yield from _merged(_walk(section, prefix, kinds, ()))


def is_there(setting: Setting, kinds: Mapping[str, str]) -> bool:
    """Whether a setting exists in these kinds of sections."""
    return all(kinds.get(path) in wanted for path, wanted in setting.needs)


def setting_at(path: str) -> Setting | None:
    """The setting of a path, also inside a list: "sampling.prompts.0.seed". None if none is."""
    found = _by_path()
    if path in found:
        return found[path]
    for name, setting in found.items():
        place, _, rest = path.removeprefix(f"{name}.").partition(".")
        if setting.item is not None and path.startswith(f"{name}.") and place.isdecimal():
            return next((inner for inner in settings(setting.item) if inner.path == rest), None)
    return None


def sections(section: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The sections directly inside a section, by key; of several kinds the default one."""
    found: dict[str, type[BaseModel]] = {}
    for key, field in section.model_fields.items():
        kinds = variants(field)
        inner = kinds[default_kind(field)] if kinds else as_section(field.annotation)
        if inner is not None:
            found[key] = inner
    return found


@cache
def _by_path() -> dict[str, Setting]:
    """Every setting of a config; made once, as looking through all kinds takes a while."""
    from onetrainer.config.train import TrainConfig

    return {setting.path: setting for setting in settings(TrainConfig)}


def _walk(
    section: type[BaseModel],
    prefix: str,
    kinds: Mapping[str, str] | None,
    needs: tuple[tuple[str, frozenset[str]], ...],
) -> Iterator[Setting]:
    for key, field in section.model_fields.items():
        path = f"{prefix}{key}"
        inner, found = as_section(field.annotation), variants(field)
        if found:
            yield _kind_setting(path, field, found, needs)
            for kind in _chosen(path, field, kinds):
                more = (*needs, (path, frozenset([kind])))
                yield from _walk(found[kind], f"{path}.", kinds, more)
        elif inner is not None:
            yield from _walk(inner, f"{path}.", kinds, needs)
        elif key != KIND and any(isinstance(mark, Ui) for mark in field.metadata):
            yield _setting(path, field, needs)


def _chosen(path: str, field: FieldInfo, kinds: Mapping[str, str] | None) -> list[str]:
    """The kinds to look into: the one that is chosen, or all with the default one first."""
    first = default_kind(field)
    if kinds is not None:
        return [kinds.get(path, first)]
    return [first, *(kind for kind in variants(field) if kind != first)]


def _merged(found: Iterator[Setting]) -> Iterator[Setting]:
    """Each path once, with what all its kinds need; in the order of their first appearance."""
    merged: dict[str, Setting] = {}
    for setting in found:
        known = merged.get(setting.path)
        merged[setting.path] = setting if known is None else _joined(known, setting)
    yield from merged.values()


def _joined(one: Setting, other: Setting) -> Setting:
    needs: dict[str, frozenset[str]] = {}
    theirs = dict(other.needs)
    for path, kinds in one.needs:
        if path in theirs:
            needs[path] = kinds | theirs[path]
    return replace(one, needs=tuple(needs.items()))


def _kind_setting(
    path: str,
    field: FieldInfo,
    found: Mapping[str, type[BaseModel]],
    needs: tuple[tuple[str, frozenset[str]], ...],
) -> Setting:
    """The choice of a section's kind; its words are the titles of the kinds."""
    ui = next(mark for mark in field.metadata if isinstance(mark, Ui))
    titles = {kind: getattr(variant, "title", kind) for kind, variant in found.items()}
    return Setting(
        path=f"{path}.{KIND}",
        kind="choice",
        ui=replace(ui, choices=titles),
        help=" ".join((field.description or "").split()),
        default=default_kind(field),
        choices=tuple(found),
        needs=needs,
    )


def _setting(path: str, field: FieldInfo, needs: tuple[tuple[str, frozenset[str]], ...]) -> Setting:
    ui = next(mark for mark in field.metadata if isinstance(mark, Ui))
    annotation, is_optional = _without_none(field.annotation)
    marks = list(field.metadata)
    if get_origin(annotation) is Annotated:  # a shared kind of value, such as `Rate | None`
        annotation, *inner = get_args(annotation)
        marks += [part for mark in inner for part in getattr(mark, "metadata", [mark])]
    kind, choices, item = _kind(annotation)
    limits = _limits(marks)
    return Setting(
        path=path,
        kind=kind,
        ui=ui,
        help=" ".join((field.description or "").split()),
        default=field.get_default(call_default_factory=True),
        choices=choices,
        item=item,
        is_optional=is_optional,
        needs=needs,
        **limits,
    )


def _limits(marks: list[Any]) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    for mark in marks:
        for part in mark if isinstance(mark, Interval) else (mark,):
            match part:
                case Ge(ge=value):
                    limits["lowest"] = value
                case Gt(gt=value):
                    limits |= {"lowest": value, "above_lowest": True}
                case Le(le=value):
                    limits["highest"] = value
                case Lt(lt=value):
                    limits |= {"highest": value, "below_highest": True}
                case MultipleOf(multiple_of=value):
                    limits["multiple_of"] = value
                case MaxLen(max_length=value):
                    limits["max_length"] = value
                case MinLen() | _:
                    pass
    return limits


def _kind(annotation: Any) -> tuple[Kind, tuple[str, ...], type[Section] | None]:
    if get_origin(annotation) is Literal:
        return "choice", get_args(annotation), None
    if get_origin(annotation) is tuple:
        return "list", (), get_args(annotation)[0]
    kinds: dict[Any, Kind] = {bool: "yes-no", int: "integer", float: "number", str: "text"}
    return kinds[annotation], (), None


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) in (Union, types.UnionType):
        members = [member for member in get_args(annotation) if member is not type(None)]
        if len(members) < len(get_args(annotation)):
            return members[0], True
    return annotation, False


def _spoken(text: str) -> str:
    return text.casefold().replace("_", " ").replace("-", " ")


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and value >= 2**31:
        return f"2^{value.bit_length() - 1}"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
