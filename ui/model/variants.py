"""Settings of the chosen variants, and edits that outlive the choice of another variant.

A variant follows from the config that was opened, with all the edits made since in any variant.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import cache, lru_cache
from math import inf

from pydantic import BaseModel

from onetrainer.config.base.encoders import FAMILY
from onetrainer.config.base.variants import KIND, chosen_section, selected_variants
from onetrainer.config.complete import completed
from onetrainer.config.fields import Setting, settings
from onetrainer.config.migrate import migrate
from onetrainer.config.run.model import Model
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, UserError
from onetrainer.json_file import Document
from onetrainer.presets import presets
from onetrainer.presets.presets import value_at

# Path and chosen variant of every section that has variants, in the order of the config; then the
# path and value of the family, which text encoders depend on.
Variants = tuple[tuple[str, str], ...]

AS_DEFAULT = object()
"""Edit of a setting to its default, which differs between variants."""
# Last edit of each setting: a value, or AS_DEFAULT.
Edits = dict[str, object]

# Users try a few combinations; each entry holds some hundred settings.
_REMEMBERED = 64


def variants_in(document: Mapping[str, object]) -> Variants:
    """Return the variants that a document has chosen, or the defaults where it is silent."""
    family = presets.value_at(document, FAMILY) or Model.default().family
    return (*selected_variants(document, TrainConfig).items(), (FAMILY, str(family)))


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
    return chosen_section(path, dict(variants), TrainConfig)


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
    for section, kind in variants:
        if section_at(section, variants) is not None:
            path = f"{section}.{KIND}"
            own[path] = value_at(document, path)
            if own[path] != kind:
                document = presets.with_variant(document, section, kind)
    return document, own


def edits_between(base: Document, document: Document) -> Edits:
    """Return the edits that lead from the opened document to another one."""
    variants = variants_in(document)
    converted, own = with_variants(base, variants)
    defaults = defaults_in(variants)
    chosen = {f"{section}.{KIND}": kind for section, kind in variants}
    edits: Edits = {path: chosen[path] for path in own if own[path] != chosen[path]}
    for setting in settings_in(variants):
        path, value = setting.path, value_at(document, setting.path)
        if value != value_at(converted, path):
            edits[path] = AS_DEFAULT if value == value_at(defaults, path) else value
    return edits


def edited(
    document: Document, base: Document, edits: Edits, path: str, value: object
) -> tuple[Document, Edits]:
    """Return document and edits with one setting changed; a method brings a fitting objective."""
    if is_variant_choice(path):
        edits = {**edits, path: value}
        document = with_choice(document, base, edits, path, value)
        return with_objective(document, base, edits) if path == "method.kind" else document, edits
    document = presets.with_value(document, path, value)
    variants = variants_in(document)
    known = settings_by_path(variants)
    owner = next((each for each in known if f"{path}.".startswith(f"{each}.")), path)
    whole = value_at(document, owner)
    is_default = whole == value_at(defaults_in(variants), owner)
    return document, {**edits, owner: AS_DEFAULT if is_default else whole}


def with_choice(
    document: Document, base: Document, edits: Edits, path: str, kind: object
) -> Document:
    """Return the document with a variant of a section as it follows from base and edits.

    Args:
        document: Is changed in this section only.
        base: The opened document.
        edits: Edits made since, in any variant.
        path: The choice of the variant, such as "method.kind".
        kind: The variant.
    """
    section = section_of(path)
    chosen = {f"{outer}.{KIND}": kind for outer, kind in variants_in(document)}
    wanted = {p: edit for p, edit in edits.items() if p.startswith(f"{section}.")}
    wanted |= {p: kind for p, kind in chosen.items() if path.startswith(f"{section_of(p)}.")}
    wanted[path] = kind
    made = base
    # Variants first, outer ones before inner ones: they decide which settings there are.
    for place in sorted(wanted, key=lambda p: p.count(".") if is_variant_choice(p) else inf):
        variants, edit = variants_in(made), wanted[place]
        setting = settings_by_path(variants).get(place)
        value = value_at(defaults_in(variants), place) if edit is AS_DEFAULT else edit
        if setting is None or (setting.kind == "choice" and value not in setting.choices):
            continue
        if not is_variant_choice(place):
            made = presets.with_value(made, place, presets.compatible_value(setting, value))
        elif value != value_at(made, place):
            made = presets.with_variant(made, section_of(place), str(value))
    return presets.with_value(document, section, value_at(made, section))


def with_objective(document: Document, base: Document, edits: Edits) -> Document:
    """Return the document with an objective that its method supports, the user's own if it can."""
    fix = required_objective(document)
    if fix is None:
        return document
    kinds = (edits.get(fix.path, value_at(base, fix.path)), fix.value)
    made = (with_choice(document, base, edits, fix.path, kind) for kind in kinds)
    return next((one for one in made if required_objective(one) is None), document)


def required_objective(document: Document) -> Fix | None:
    """Return the choice of objective that a document's method requires; None if its own is fine.

    Other invalid values of the document are ignored.
    """
    # Imported late to keep the start of the window fast.
    from onetrainer.rules.rules import check_rules

    config = presets.resolve(defaults_in(variants_in(document)), source="")
    fixes = (problem.fix for problem in check_rules(config) if problem.severity == "error")
    return next((fix for fix in fixes if fix and fix.path == "objective.kind"), None)


def section_alone(document: Document, variants: Variants, section: str) -> Document:
    """Return one section of a document without the sections around it, which may be invalid."""
    found: Document = {}
    for path, kind in variants:
        if section.startswith(f"{path}."):
            found = presets.with_value(found, f"{path}.{KIND}", kind)
    return presets.with_value(found, section, value_at(document, section))


def migrated_document(document: Document) -> Document:
    """Return the document of an earlier window in the current layout, with all settings."""
    with suppress(UserError):  # of a newer version: use what is known
        document = migrate(document, source="")
    return completed(document)
