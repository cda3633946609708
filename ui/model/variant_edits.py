"""Edits of settings, so that users can switch between variants of a section without losing them.

A variant follows from the config that was opened, with all the edits made since in any variant.
"""

from onetrainer.config.base.variants import KIND
from onetrainer.json_file import Document
from onetrainer.presets import presets
from ui.model.variants import (
    defaults_in,
    is_variant_choice,
    required_objective,
    section_of,
    section_with_variant,
    settings_by_path,
    settings_in,
    value_in,
    variants_in,
    with_variants,
)

AS_DEFAULT = object()
"""Edit of a setting to its default, which differs between variants."""
# Last edit of each setting: a value, or AS_DEFAULT.
Edits = dict[str, object]


def edits_between(base: Document, document: Document) -> Edits:
    """Return the edits that lead from the opened document to another one."""
    variants = variants_in(document)
    converted, own = with_variants(base, variants)
    defaults = defaults_in(variants)
    chosen = {f"{section}.{KIND}": kind for section, kind in variants}
    edits: Edits = {path: chosen[path] for path in own if own[path] != chosen[path]}
    for setting in settings_in(variants):
        path, value = setting.path, value_in(document, setting.path)
        if value != value_in(converted, path):
            edits[path] = AS_DEFAULT if value == value_in(defaults, path) else value
    return edits


def with_variant(
    document: Document, base: Document, section: str, kind: str, edits: Edits
) -> Document:
    """Return the document with a variant of a section as it follows from base and edits."""
    variants = variants_in(presets.with_value(document, section, {KIND: kind}))
    made = section_with_variant(base, variants, section, kind)
    document = presets.with_value(document, section, made)
    inside = [
        path for path in edits if path.startswith(f"{section}.") and path != f"{section}.{KIND}"
    ]
    # Inner variants first: they decide which settings there are.
    for path in sorted(inside, key=lambda path: not is_variant_choice(path)):
        variants = variants_in(document)
        setting = settings_by_path(variants).get(path)
        edit = edits[path]
        value = value_in(defaults_in(variants), path) if edit is AS_DEFAULT else edit
        if setting is None or (setting.kind == "choice" and value not in setting.choices):
            continue
        if not is_variant_choice(path):
            document = presets.with_value(document, path, presets.compatible_value(setting, value))
        elif value != value_in(document, path):
            document = presets.with_variant(document, section_of(path), str(value))
    return document


def with_objective(document: Document, base: Document, edits: Edits, left: list[str]) -> Document:
    """Return the document with an objective that its method supports.

    Args:
        document: May have an objective that does not go with its method.
        base: The opened document.
        edits: Edits made since.
        left: Objectives that were left for another one, which are preferred in this order.
    """
    fix = required_objective(document)
    if fix is None:
        return document
    made = (
        with_variant(document, base, "objective", kind, edits) for kind in (*left, str(fix.value))
    )
    return next((one for one in made if required_objective(one) is None), document)
