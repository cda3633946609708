"""Which settings there are, for the kinds of section that a document has chosen. No Tk."""

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

# The kind of every section that comes in kinds, by its path, in the order of the config.
Variants = tuple[tuple[str, str], ...]

# A person tries out a few; each remembers some hundred settings.
_REMEMBERED = 64


def variants_in(document: Mapping[str, object]) -> Variants:
    """The kinds that a document has chosen; where it says nothing, the default ones."""
    return tuple(selected_variants(document, TrainConfig).items())


@lru_cache(_REMEMBERED)
def settings_in(variants: Variants) -> tuple[Setting, ...]:
    """The settings that there are with these kinds, in the order of the config."""
    return tuple(settings(TrainConfig, kinds=dict(variants)))


@lru_cache(_REMEMBERED)
def settings_by_path(variants: Variants) -> Mapping[str, Setting]:
    """The settings that there are with these kinds, by their paths."""
    return {setting.path: setting for setting in settings_in(variants)}


@cache
def all_settings() -> tuple[Setting, ...]:
    """The settings of all kinds, each path once."""
    return tuple(settings(TrainConfig))


@lru_cache(_REMEMBERED)
def defaults_in(variants: Variants) -> Document:
    """Every setting's own value, in these kinds."""
    return presets.defaults(dict(variants))


@lru_cache(_REMEMBERED)
def section_at(path: str, variants: Variants) -> type[BaseModel] | None:
    """The section at a path, of the kind that is chosen; None if there is none."""
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
    """The settings of each entry of a list; none of anything else."""
    return _settings_of(setting.item)


@cache
def _settings_of(item: type[BaseModel] | None) -> tuple[Setting, ...]:
    is_section = isinstance(item, type) and issubclass(item, BaseModel)
    return tuple(settings(item)) if item is not None and is_section else ()


def is_variant_choice(path: str) -> bool:
    """Whether a setting is the choice of its section's kind."""
    return path.endswith(f".{KIND}")


def section_of(path: str) -> str:
    """The path of the section that a setting belongs to: "method.unet" of "method.unet.lr"."""
    return path.rpartition(".")[0]


def with_variants(document: Document, variants: Variants) -> tuple[Document, dict[str, object]]:
    """A document with other kinds of sections, and what its kinds are by their settings' paths.

    What it sets stays where the new kind has a setting of that name. The kind of a section within
    another one is that which it has after the outer one has changed.
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


def base_section(document: Document, variants: Variants, section: str) -> object:
    """A section of a document as it is where only the sections around it have these kinds."""
    return value_in(_with_around(document, variants, section), section)


def section_with_variant(document: Document, variants: Variants, section: str, kind: str) -> object:
    """A section of a document with another kind, where those around it have these kinds."""
    document = _with_around(document, variants, section)
    if value_in(document, f"{section}.{KIND}") != kind:
        document = presets.with_variant(document, section, kind)
    return value_in(document, section)


def required_objective(document: Document) -> Fix | None:
    """The choice of objective that goes with a document's method; None if its own does.

    Whatever else is wrong in the document.
    """
    config = presets.resolve(defaults_in(variants_in(document)), source="")
    fixes = (problem.fix for problem in check_rules(config) if problem.severity == "error")
    return next((fix for fix in fixes if fix and fix.path == "objective.kind"), None)


def section_alone(document: Document, variants: Variants, section: str) -> Document:
    """A section of a document without what is around it, which may be wrong."""
    found: Document = {}
    for path, kind in variants:
        if section.startswith(f"{path}."):
            found = presets.with_value(found, f"{path}.{KIND}", kind)
    return presets.with_value(found, section, value_in(document, section))


def with_defaults(document: Mapping[str, object]) -> Document:
    """The document with the defaults where it says nothing, without what is no setting."""
    return _merged(defaults_in(variants_in(document)), document)


def migrated_document(document: Document) -> Document:
    """What an earlier window was editing, in today's layout."""
    with suppress(UserError):  # a newer version's, of which that is taken that is known here
        document = migrate(document, source="")
    return with_defaults(document)


def value_in(document: Mapping[str, object], path: str) -> object:
    """The value at a path; entries of lists are counted. None if there is none."""
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
            # A section that is none would leave nothing to edit.
            merged[key] = _merged(inner, value) if isinstance(value, Mapping) else inner
        elif key in merged:
            merged[key] = value
    return merged
