"""Sections that come in kinds, such as the method or the optimizer: what there is to choose."""

import types
from collections.abc import Iterator, Mapping
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

KIND = "kind"
"""The key that tells a section's kind."""


def variants(field: FieldInfo) -> dict[str, type[BaseModel]]:
    """The kinds of section a field may hold, in their order; none for any other field."""
    if get_origin(field.annotation) not in (Union, types.UnionType):
        return {}
    members = [member for member in get_args(field.annotation) if as_section(member)]
    if len(members) < len(get_args(field.annotation)):
        return {}
    return {str(member.model_fields[KIND].default): member for member in members}


def default_kind(field: FieldInfo) -> str:
    """The kind of section that a field holds where nothing is said."""
    return str(getattr(field.get_default(call_default_factory=True), KIND))


def kind_paths(root: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every field of a config that holds one of several kinds, by the path of its section."""
    for key, field in root.model_fields.items():
        path = f"{prefix}{key}"
        found = variants(field)
        if found:
            yield path, field
        inner = as_section(field.annotation)
        for section in [*found.values(), *([inner] if inner else [])]:
            yield from kind_paths(section, f"{path}.")


def kinds_of(document: Mapping[str, Any], root: type[BaseModel]) -> dict[str, str]:
    """Which kind each such section of a document is, by the section's path: {"method": "lora"}.

    The field's default where the document says nothing, or something that is no kind.
    """
    found: dict[str, str] = {}
    for path, field in kind_paths(root):
        if path in found:
            continue
        value: Any = document
        for key in [*path.split("."), KIND]:
            value = value.get(key) if isinstance(value, Mapping) else None
        found[path] = value if value in variants(field) else default_kind(field)
    return found


def with_kinds(document: Mapping[str, Any], root: type[BaseModel]) -> dict[str, Any]:
    """The document with the kind told wherever it says something of a section and not its kind."""
    filled = dict(document)
    for key, field in root.model_fields.items():
        value = filled.get(key)
        if not isinstance(value, Mapping):
            continue
        found = variants(field)
        if found and KIND not in value:
            value = {KIND: default_kind(field), **value}
        kind = value.get(KIND)
        inner = found.get(kind) if isinstance(kind, str) else None
        inner = inner or as_section(field.annotation)
        filled[key] = with_kinds(value, inner) if inner else value
    return filled


def without_tags(location: tuple[str | int, ...], root: type[BaseModel]) -> tuple[str | int, ...]:
    """Pydantic's place of a finding, without the kinds that it puts behind a section's name.

    ("optimizer", "lion", "lr") as ("optimizer", "lr").
    """
    if not location:
        return location
    head, rest = location[0], location[1:]
    field = root.model_fields.get(str(head))
    if field is None:
        return location
    found = variants(field)
    section = as_section(field.annotation)
    if found and rest and rest[0] in found:
        section, rest = found[str(rest[0])], rest[1:]
    return (head, *(without_tags(rest, section) if section else rest))


def tags(
    location: tuple[str | int, ...], root: type[BaseModel], prefix: str = ""
) -> dict[str, str]:
    """The kinds that pydantic's place of a finding tells, by the paths of their sections."""
    field = root.model_fields.get(str(location[0])) if location else None
    if field is None:
        return {}
    path, rest, found = f"{prefix}{location[0]}", location[1:], variants(field)
    if found and rest and rest[0] in found:
        kind = str(rest[0])
        return {path: kind} | tags(rest[1:], found[kind], f"{path}.")
    section = as_section(field.annotation)
    return tags(rest, section, f"{path}.") if section else {}


def as_section(annotation: Any) -> type[BaseModel] | None:
    """The annotation if it is a section; None for anything else."""
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return annotation if is_model else None
