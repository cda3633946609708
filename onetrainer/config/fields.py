"""The settings as data, for the window, messages and the settings reference."""

import types
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from onetrainer.config.base.amount import Amount, InSteps
from onetrainer.config.base.encoders import FAMILY, encoder_label, encoders_by_key
from onetrainer.config.base.field_help import field_help, owner_of
from onetrainer.config.base.section import Section, Ui, source_of, without_source
from onetrainer.config.base.variants import (
    KIND,
    as_section,
    default_of,
    default_variant,
    encoder_section,
    variants,
)
from onetrainer.families.registry import FAMILY_LABELS

Needs = tuple[tuple[str, frozenset[str]], ...]
_Found = tuple[str, Needs, "Setting"]
Kind = Literal["yes-no", "integer", "amount", "number", "text", "choice", "list"]


class Setting(NamedTuple):
    """One setting.

    Attributes:
        path: Dotted, as in `--set` ("optimizer.lr").
        kind: The type of its value.
        defined_at: The class that defines it, and the name of the field there.
        choices: The values of a "choice".
        item: The section of each entry of a "list".
        is_optional: Whether empty (null) is a value.
        needs: If it exists only in some variants of sections: each section's path, and the variants
            that have it.
        encoder: The text encoder that it belongs to, if it exists for each of them.
        lowest: The lower end of the range; excluded if `above_lowest`.
        highest: The upper end of the range; excluded if `below_highest`.
    """

    path: str
    kind: Kind
    ui: Ui
    defined_at: tuple[type[BaseModel], str]
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
    needs: Needs = ()
    encoder: str = ""

    @property
    def help(self) -> str:
        """What it does, a usual value, what more and less of it do; and the source, if any."""
        text = field_help(*self.defined_at)
        return _about_encoder(text, self.encoder) if self.encoder else text

    @property
    def expected(self) -> str:
        """A description of the allowed values: "a whole number from 1 to 1024"."""
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
        noun = "a number" if self.kind == "number" else "a whole number"
        if self.multiple_of not in (None, 1):
            noun = f"a multiple of {self.multiple_of:g}"
        if self.kind == "amount":
            others = 'an amount such as "10 epochs", "5000 images" or "30 minutes"'
            return f"{noun}{self._range()}, or {others}"
        return noun + self._range() + (", or nothing" if self.is_optional else "")

    def choice_label(self, value: Any) -> str:
        """Return the label of a choice's value: "automatic" for "auto"; itself if it has none."""
        return self.ui.choices.get(str(value), str(value))

    @property
    def help_text(self) -> str:
        """The help without its source, with choices' labels: “automatic” for "auto"."""
        text = without_source(self.help)
        for value in self.choices:
            text = text.replace(f'"{value}"', f"“{self.choice_label(value)}”")
        return text

    @property
    def source(self) -> str:
        """The papers that describe it; "" for none."""
        return source_of(self.help)

    def _named(self, choice: str) -> str:
        label = self.choice_label(choice)
        is_same = _normalized(label) == _normalized(choice)
        return f'"{choice}"' if is_same else f'"{choice}" ({label})'

    def _range(self) -> str:
        low = _format_limit(self.lowest)
        high = _format_limit(self.highest)
        if low and high and not self.above_lowest and not self.below_highest:
            return f" from {low} to {high}"
        limits = []
        if low:
            limits.append(f"above {low}" if self.above_lowest else f"at least {low}")
        if high:
            limits.append(f"below {high}" if self.below_highest else f"at most {high}")
        return " " + " and ".join(limits) if limits else ""


def settings(
    section: type[BaseModel], prefix: str = "", *, selected: Mapping[str, str] | None = None
) -> Iterator[Setting]:
    """Yield every setting of a section and its subsections, in the order of the file.

    Args:
        section: The section.
        prefix: The path of the section, with a dot at the end.
        selected: The selected variants by section path, see `selected_variants`: yields only their
            settings. None yields those of all variants, each path once, as the default variant
            or else the first one defines it. May also name the family, for text encoders' labels.
    """
    chosen = None if selected is None else tuple(sorted(selected.items()))
    yield from _settings(section, prefix, chosen)


@lru_cache(maxsize=256)  # collecting those of all variants takes a hundredth of a second
def _settings(
    section: type[BaseModel], prefix: str, selected: tuple[tuple[str, str], ...] | None
) -> tuple[Setting, ...]:
    chosen = None if selected is None else dict(selected)
    return tuple(_merged(_walk(section, prefix, chosen, ())))


@lru_cache(maxsize=64)
def encoder_settings(section: type[BaseModel], path: str, family: str = "") -> tuple[Setting, ...]:
    """Return the settings of every text encoder, with a family's labels of them.

    section: That of each of them. path: That of their table.
    """
    found = []
    for key, families in encoders_by_key().items():
        name = encoder_label(key, family)
        only_with = {FAMILY: tuple(families)} if len(families) < len(FAMILY_LABELS) else {}
        for setting in _merged(_walk(section, f"{path}.{key}.", None, ())):
            label = _about_encoder(setting.ui.label, name)
            ui = setting.ui._replace(label=label, only_with=only_with)
            found.append(setting._replace(ui=ui, encoder=name))
    return tuple(found)


def _about_encoder(text: str, name: str) -> str:
    """Return a text about any text encoder as one about that with a name."""
    title = name[:1].upper() + name[1:]
    return text.replace("text encoder", name).replace("Text encoder", title)


def is_available(setting: Setting, selected: Mapping[str, str]) -> bool:
    """Return whether a setting exists in the selected variants."""
    return all(selected.get(path) in allowed for path, allowed in setting.needs)


def setting_at(path: str) -> Setting | None:
    """Return the setting of a path, also in a list: "sampling.prompts.0.seed"; None if missing."""
    by_path = _by_path()
    if path in by_path:
        return by_path[path]
    for name, setting in by_path.items():
        index, _, rest = path.removeprefix(f"{name}.").partition(".")
        if setting.item is not None and path.startswith(f"{name}.") and index.isdecimal():
            return next((inner for inner in settings(setting.item) if inner.path == rest), None)
    return None


def sections(section: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Return the direct subsections by key; the default one if there are variants."""
    inner: dict[str, type[BaseModel]] = {}
    for key, field in section.model_fields.items():
        by_name = variants(field)
        each = by_name[default_variant(field)] if by_name else as_section(field.annotation)
        if each is not None:
            inner[key] = each
    return inner


@cache
def _by_path() -> dict[str, Setting]:
    """Return every setting of a config; cached, as collecting them from all variants is slow."""
    from onetrainer.config.train import TrainConfig

    return {setting.path: setting for setting in settings(TrainConfig)}


def _walk(
    section: type[BaseModel],
    prefix: str,
    selected: Mapping[str, str] | None,
    needs: Needs,
) -> Iterator[_Found]:
    """Yield each path with what it needs, and its setting, which does not know these two yet."""
    for key, field in section.model_fields.items():
        path = f"{prefix}{key}"
        inner, by_name = as_section(field.annotation), variants(field)
        if by_name:
            yield f"{path}.{KIND}", needs, _variant_setting(section, key)
            for name in _selected(path, field, selected):
                more = (*needs, (path, frozenset([name])))
                yield from _walk(by_name[name], f"{path}.", selected, more)
        elif inner is not None:
            yield from _walk(inner, f"{path}.", selected, needs)
        elif (each := encoder_section(field.annotation)) is not None:
            for setting in encoder_settings(each, path, (selected or {}).get(FAMILY, "")):
                yield setting.path, needs, setting
        elif key != KIND and any(isinstance(mark, Ui) for mark in field.metadata):
            yield path, needs, _setting_of(owner_of(section, key), key)


def _selected(path: str, field: FieldInfo, selected: Mapping[str, str] | None) -> list[str]:
    """Return the selected variant; without a selection all, the default one first."""
    first = default_variant(field)
    if selected is not None:
        return [selected.get(path, first)]
    return [first, *(name for name in variants(field) if name != first)]


def _merged(found: Iterator[_Found]) -> Iterator[Setting]:
    """Yield the first setting of each path; its `needs` is the union over variants."""
    merged: dict[str, Setting] = {}
    needs: dict[str, Needs] = {}
    for path, own, setting in found:
        if path in merged:
            more = dict(own)
            shared = ((one, names | more[one]) for one, names in needs[path] if one in more)
            needs[path] = tuple(shared)
        else:
            merged[path], needs[path] = setting, own
    for path, setting in merged.items():
        yield setting._replace(path=path, needs=needs[path])


@cache
def _variant_setting(section: type[BaseModel], key: str) -> Setting:
    """Return the setting that selects a section's variant; its labels are the variants' titles."""
    field = section.model_fields[key]
    by_name = variants(field)
    ui = next(mark for mark in field.metadata if isinstance(mark, Ui))
    titles = {name: getattr(variant, "title", name) for name, variant in by_name.items()}
    return Setting(
        path=KIND,
        kind="choice",
        ui=ui._replace(choices=titles),
        defined_at=(owner_of(section, key), key),
        default=default_variant(field),
        choices=tuple(by_name),
    )


@cache  # many variants share a field
def _setting_of(section: type[BaseModel], key: str) -> Setting:
    """Return the setting of a field that a section itself defines, by its key alone."""
    field = section.model_fields[key]
    ui = next(mark for mark in field.metadata if isinstance(mark, Ui))
    annotation, is_optional = _without_none(field.annotation)
    marks = list(field.metadata)
    if get_origin(annotation) is Annotated:  # a shared type, such as `Rate | None`
        annotation, *inner = get_args(annotation)
        marks += [part for mark in inner for part in getattr(mark, "metadata", [mark])]
    kind, choices, item = _kind(annotation)
    if kind == "text" and ui.choices:
        kind, choices = "choice", tuple(ui.choices)
    limits = _limits(marks)
    return Setting(
        path=key,
        kind=kind,
        ui=ui,
        defined_at=(section, key),
        default=default_of(field),
        choices=choices,
        item=item,
        is_optional=is_optional,
        **limits,
    )


def _limits(marks: list[Any]) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    for mark in marks:
        if isinstance(mark, Ui):
            continue
        match mark:
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
            case InSteps():
                limits |= {"lowest": mark.lowest, "highest": mark.highest}
            case MinLen() | _:
                pass
    return limits


def _kind(annotation: Any) -> tuple[Kind, tuple[str, ...], type[Section] | None]:
    if get_origin(annotation) is Literal:
        return "choice", get_args(annotation), None
    if get_origin(annotation) is tuple:
        return "list", (), get_args(annotation)[0]
    if Amount in get_args(annotation):
        return "amount", (), None
    by_type: dict[Any, Kind] = {bool: "yes-no", int: "integer", float: "number", str: "text"}
    return by_type[annotation], (), None


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) in (Union, types.UnionType):
        members = [member for member in get_args(annotation) if member is not type(None)]
        if len(members) < len(get_args(annotation)):
            return members[0], True
    return annotation, False


def _normalized(text: str) -> str:
    return text.casefold().replace("_", " ").replace("-", " ")


def _format_limit(value: float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and value >= 2**31:
        return f"2^{value.bit_length() - 1}"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
