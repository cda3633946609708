"""Settings that exist for the chosen variants of the sections."""

from collections.abc import Mapping
from contextlib import suppress
from functools import cache, lru_cache

from pydantic import BaseModel

from onetrainer.config.base.variants import KIND, as_section, selected_variants
from onetrainer.config.base.variants import variants as variant_types
from onetrainer.config.fields import Setting, settings
from onetrainer.config.migrate import migrate
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, UserError
from onetrainer.json_file import Document
from onetrainer.presets import presets
from onetrainer.rules.rules import check_rules

# Path and chosen variant of every section that has variants, in the order of the config.
Variants = tuple[tuple[str, str], ...]

# Users try a few combinations; each entry holds some hundred settings.
_REMEMBERED = 64


def variants_in(document: Mapping[str, object]) -> Variants:
    """Return the variants that a document has chosen, or the defaults where it is silent."""
    return tuple(selected_variants(document, TrainConfig).items())


@lru_cache(_REMEMBERED)
def settings_in(variants: Variants) -> tuple[Setting, ...]:
    """Return the settings that exist with these variants, in the order of the config."""
    return tuple(settings(TrainConfig, selected=dict(variants)))


@lru_cache(_REMEMBERED)
def settings_by_path(variants: Variants) -> Mapping[str, Setting]:
    """Return the settings that exist with these variants by path."""
    return {setting.path: setting for setting in settings_in(variants)}


@cache
def all_settings() -> tuple[Setting, ...]:
    """Return the settings of all variants, each path once."""
    return tuple(settings(TrainConfig))


@lru_cache(_REMEMBERED)
def defaults_in(variants: Variants) -> Document:
    """Return the default of every setting in these variants."""
    return presets.defaults(dict(variants))


@lru_cache(_REMEMBERED)
def section_at(path: str, variants: Variants) -> type[BaseModel] | None:
    """Return the class of the section at a path for the chosen variant; None if there is none."""
    chosen = dict(variants)
    section: type[BaseModel] | None = TrainConfig
    place = ""
    for key in path.split("."):
        field = section.model_fields.get(key) if section is not None else None
        if field is None:
            return None
        place = f"{place}.{key}" if place else key
        found = variant_types(field)
        section = found.get(chosen.get(place, "")) if found else as_section(field.annotation)
    return section


def entries_of(setting: Setting) -> tuple[Setting, ...]:
    """Return the settings of each entry of a list; () for anything else."""
    return _settings_of(setting.item)


@cache
def _settings_of(item: type[BaseModel] | None) -> tuple[Setting, ...]:
    is_section = isinstance(item, type) and issubclass(item, BaseModel)
    return tuple(settings(item)) if item is not None and is_section else ()


def is_variant_choice(path: str) -> bool:
    """Return whether a setting is the choice of its section's variant."""
    return path.endswith(f".{KIND}")


def section_of(path: str) -> str:
    """Return the path of the section of a setting: "method.unet" for "method.unet.lr"."""
    return path.rpartition(".")[0]


def with_variants(document: Document, variants: Variants) -> tuple[Document, dict[str, object]]:
    """Return a document converted to other variants, and its own variants by path.

    Values stay where the new variant has a setting of that name. The own variant of an inner
    section is the one it has after the outer section was converted.
    """
    own: dict[str, object] = {}
    chosen = dict(variants)
    for setting in settings_in(variants):
        if is_variant_choice(setting.path):
            section = section_of(setting.path)
            own[setting.path] = value_in(document, setting.path)
            if own[setting.path] != chosen[section]:
                document = presets.with_variant(document, section, chosen[section])
    return document, own


def section_with_variant(document: Document, variants: Variants, section: str, kind: str) -> object:
    """Return a section of a document in one variant, after converting the sections around it."""
    document = _with_around(document, variants, section)
    if value_in(document, f"{section}.{KIND}") != kind:
        document = presets.with_variant(document, section, kind)
    return value_in(document, section)


def required_objective(document: Document) -> Fix | None:
    """Return the choice of objective that a document's method requires; None if its own is fine.

    Other invalid values of the document are ignored.
    """
    config = presets.resolve(defaults_in(variants_in(document)), source="")
    fixes = (problem.fix for problem in check_rules(config) if problem.severity == "error")
    return next((fix for fix in fixes if fix and fix.path == "objective.kind"), None)


def section_alone(document: Document, variants: Variants, section: str) -> Document:
    """Return one section of a document without the sections around it, which may be invalid."""
    found: Document = {}
    for path, kind in variants:
        if section.startswith(f"{path}."):
            found = presets.with_value(found, f"{path}.{KIND}", kind)
    return presets.with_value(found, section, value_in(document, section))


def with_defaults(document: Mapping[str, object]) -> Document:
    """Return the document with missing settings at their defaults and unknown keys removed."""
    return _merged(defaults_in(variants_in(document)), document)


def migrated_document(document: Document) -> Document:
    """Return the document of an earlier window in the current layout."""
    with suppress(UserError):  # of a newer version: use what is known
        document = migrate(document, source="")
    return with_defaults(document)


def value_in(document: Mapping[str, object], path: str) -> object:
    """Return the value at a path; list entries are numbered. None if there is none."""
    value: object = document
    for key in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list | tuple) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


def _with_around(document: Document, variants: Variants, section: str) -> Document:
    for path, kind in variants:
        is_around = section.startswith(f"{path}.")
        if is_around and value_in(document, f"{path}.{KIND}") != kind:
            document = presets.with_variant(document, path, kind)
    return document


def _merged(base: Mapping[str, object], over: Mapping[str, object]) -> Document:
    merged: Document = dict(base)
    for key, value in over.items():
        inner = merged.get(key)
        if isinstance(inner, Mapping):
            # A value in place of a section would leave nothing to edit.
            merged[key] = _merged(inner, value) if isinstance(value, Mapping) else inner
        elif key in merged:
            merged[key] = value
    return merged
