"""The settings as data: what the window, the messages and the reference all read."""

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Interval, Le, Lt, MaxLen, MinLen, MultipleOf
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from onetrainer.config.base import Section, Ui

Kind = Literal["yes-no", "integer", "number", "text", "choice", "list"]


@dataclass(frozen=True)
class Setting:
    """One setting.

    path: dotted, as in `--set` ("optimizer.lr"). kind: what it holds. choices: of a "choice".
    item: the section each entry of a "list" is. is_optional: whether empty (null) is a value.
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


def settings(section: type[BaseModel], prefix: str = "") -> Iterator[Setting]:
    """Every setting of a section and of the sections in it, in the order of the file."""
    for key, field in section.model_fields.items():
        path = f"{prefix}{key}"
        inner = _as_section(field.annotation)
        if inner is not None:
            yield from settings(inner, f"{path}.")
        elif any(isinstance(mark, Ui) for mark in field.metadata):
            yield _setting(path, field)


def setting_at(path: str) -> Setting | None:
    """The setting of a path, also inside a list: "sampling.prompts.0.seed". None if none is."""
    from onetrainer.config.train import TrainConfig

    found = {setting.path: setting for setting in settings(TrainConfig)}
    if path in found:
        return found[path]
    for name, setting in found.items():
        place, _, rest = path.removeprefix(f"{name}.").partition(".")
        if setting.item is not None and path.startswith(f"{name}.") and place.isdecimal():
            return next((inner for inner in settings(setting.item) if inner.path == rest), None)
    return None


def sections(section: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The sections directly inside a section, by key."""
    found = {key: _as_section(field.annotation) for key, field in section.model_fields.items()}
    return {key: inner for key, inner in found.items() if inner is not None}


def _setting(path: str, field: FieldInfo) -> Setting:
    ui = next(mark for mark in field.metadata if isinstance(mark, Ui))
    annotation, is_optional = _without_none(field.annotation)
    kind, choices, item = _kind(annotation)
    limits = _limits(field)
    return Setting(
        path=path,
        kind=kind,
        ui=ui,
        help=" ".join((field.description or "").split()),
        default=field.get_default(call_default_factory=True),
        choices=choices,
        item=item,
        is_optional=is_optional,
        **limits,
    )


def _limits(field: FieldInfo) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    for mark in field.metadata:
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


def _as_section(annotation: Any) -> type[BaseModel] | None:
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return annotation if is_model else None


def _spoken(text: str) -> str:
    return text.casefold().replace("_", " ").replace("-", " ")


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and value >= 2**31:
        return f"2^{value.bit_length() - 1}"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
