"""Variants of a section, such as the methods or the optimizers: which exist, which are selected."""

import types
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

KIND = "kind"
"""The key that selects a section's variant."""


def variants(field: FieldInfo) -> Mapping[str, type[BaseModel]]:
    """Return a field's section variants by name, in their order; empty for any other field."""
    is_union = get_origin(field.annotation) in (Union, types.UnionType)
    annotation = field.annotation
    return _members(annotation) if is_union else {}  # type: ignore[arg-type] # types are hashable


@cache
def _members(union: Any) -> Mapping[str, type[BaseModel]]:
    members = [member for member in get_args(union) if as_section(member)]
    if len(members) < len(get_args(union)):
        return {}
    return {str(member.model_fields[KIND].default): member for member in members}


def default_variant(field: FieldInfo) -> str:
    """Return the name of a field's default variant."""
    return str(getattr(default_of(field), KIND))


def default_of(field: FieldInfo) -> object:
    """Return the default of a field: itself, as sections never change, and not a copy of it."""
    if field.default_factory is None:
        return field.default
    return field.get_default(call_default_factory=True)


@cache
def variant_paths(root: type[BaseModel]) -> tuple[tuple[str, FieldInfo], ...]:
    """Return the path and the field of every section of a config that has variants."""
    return tuple(_variant_paths(root, ""))


def _variant_paths(root: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for key, field in root.model_fields.items():
        path = f"{prefix}{key}"
        by_name = variants(field)
        if by_name:
            yield path, field
        inner = as_section(field.annotation)
        for section in [*by_name.values(), *([inner] if inner else [])]:
            yield from _variant_paths(section, f"{path}.")


def selected_variants(document: Mapping[str, Any], root: type[BaseModel]) -> dict[str, str]:
    """Return the selected variant of each section by the section's path: {"method": "lora"}.

    Missing and invalid names count as the field's default.
    """
    selected: dict[str, str] = {}
    for path, field in variant_paths(root):
        if path in selected:
            continue
        value: Any = document
        for key in [*path.split("."), KIND]:
            value = value.get(key) if isinstance(value, Mapping) else None
        is_known = isinstance(value, str) and value in variants(field)
        selected[path] = value if is_known else default_variant(field)
    return selected


def chosen_section(
    path: str, selected: Mapping[str, str], root: type[BaseModel]
) -> type[BaseModel] | None:
    """Return the section at a path for the selected variants; None if there is none."""
    section: type[BaseModel] | None = root
    place = ""
    for key in path.split("."):
        field = section.model_fields.get(key) if section is not None else None
        if field is None:
            return None
        place = f"{place}.{key}" if place else key
        by_name = variants(field)
        section = by_name.get(selected.get(place, "")) if by_name else as_section(field.annotation)
    return section


def with_default_variants(document: Mapping[str, Any], root: type[BaseModel]) -> dict[str, Any]:
    """Return the document with the default variant filled in where a section names none."""
    filled = dict(document)
    for key, field in root.model_fields.items():
        value = filled.get(key)
        if not isinstance(value, Mapping):
            continue
        by_name = variants(field)
        if by_name and KIND not in value:
            value = {KIND: default_variant(field), **value}
        name = value.get(KIND)
        inner = by_name.get(name) if isinstance(name, str) else None
        inner = inner or as_section(field.annotation)
        filled[key] = with_default_variants(value, inner) if inner else value
    return filled


def without_variant_tags(
    location: tuple[str | int, ...], root: type[BaseModel]
) -> tuple[str | int, ...]:
    """Return pydantic's error location without the variant names that follow section names.

    For example ("optimizer", "lr") for ("optimizer", "lion", "lr").
    """
    if not location:
        return location
    head, rest = location[0], location[1:]
    field = root.model_fields.get(str(head))
    if field is None:
        return location
    by_name = variants(field)
    section = as_section(field.annotation)
    if by_name and rest and rest[0] in by_name:
        section, rest = by_name[str(rest[0])], rest[1:]
    return (head, *(without_variant_tags(rest, section) if section else rest))


def variant_tags(
    location: tuple[str | int, ...], root: type[BaseModel], prefix: str = ""
) -> dict[str, str]:
    """Return the variant names in pydantic's error location, by the paths of their sections."""
    field = root.model_fields.get(str(location[0])) if location else None
    if field is None:
        return {}
    path, rest, by_name = f"{prefix}{location[0]}", location[1:], variants(field)
    if by_name and rest and rest[0] in by_name:
        name = str(rest[0])
        return {path: name} | variant_tags(rest[1:], by_name[name], f"{path}.")
    section = as_section(field.annotation)
    return variant_tags(rest, section, f"{path}.") if section else {}


def as_section(annotation: Any) -> type[BaseModel] | None:
    """Return the annotation if it is a section, else None."""
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return annotation if is_model else None


def encoder_section(annotation: Any) -> type[BaseModel] | None:
    """Return the section of each text encoder if the annotation is a table of them, else None."""
    return as_section(get_args(annotation)[1]) if get_origin(annotation) is Mapping else None
