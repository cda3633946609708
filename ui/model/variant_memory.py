"""Memory of each variant of a section, so that users can switch variants without losing edits."""

from collections.abc import Mapping
from dataclasses import dataclass

from onetrainer.config.base.variants import KIND
from onetrainer.config.fields import Setting
from onetrainer.json_file import Document
from onetrainer.presets import presets
from ui.model.variants import (
    Variants,
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

_OBJECTIVE = "objective"


@dataclass(frozen=True)
class _Edit:
    """Last edit of a setting. at: number of the change."""

    at: int
    value: object
    is_default: bool


class VariantMemory:
    """Sections of all variants that were chosen since a config was opened, including undone ones.

    A variant returns as it was last, with the edits made in other variants since. A variant that
    was not chosen yet follows from the opened config, with the edits made since.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._base = document
        self._change_count = 0
        self._saved: dict[tuple[str, str], tuple[int, object]] = {}
        self._edits: dict[str, _Edit] = {}
        self.begin(document, document)

    def begin(self, base: Document, document: Document) -> None:
        """Forget everything and start from a config that was opened.

        Args:
            base: The opened document.
            document: The document with later edits.
        """
        self._base = base
        self._saved, self._edits = {}, {}
        self._save(base, variants_in(base))
        self._document, _ = with_variants(base, variants_in(document))
        self.track(document)

    def rebase(self, base: Document) -> None:
        """Use another document as the opened one, after it was saved."""
        self._base = base

    def forget(self, section: str) -> None:
        """Forget the variants of one section and of its subsections."""
        within = f"{section}."
        self._saved = {
            key: kept for key, kept in self._saved.items() if not f"{key[0]}.".startswith(within)
        }
        self._edits = {
            path: edit for path, edit in self._edits.items() if not path.startswith(within)
        }

    def track(self, document: Document) -> None:
        """Record a change of the document, also one that was undone."""
        before, self._document = self._document, document
        self._change_count += 1
        variants = variants_in(document)
        old = dict(variants_in(before))
        same = {section for section, kind in variants if old[section] == kind}
        changed = {key for key in document if document[key] != before.get(key)}
        for setting in settings_in(variants):
            path = setting.path
            if path.partition(".")[0] not in changed or not _is_edit_within(path, variants, same):
                continue
            value = value_in(document, path)
            if value != value_in(before, path):
                is_default = value == value_in(defaults_in(variants), path)
                self._edits[path] = _Edit(self._change_count, value, is_default)
        self._save(document, variants)

    def with_variant(self, document: Document, section: str, kind: str) -> Document:
        """Return the document with a variant as it was last, or as it follows from the base."""
        since, kept = self._saved.get((section, kind), (-1, None))
        if kept is None:
            variants = variants_in(presets.with_value(document, section, {KIND: kind}))
            kept = section_with_variant(self._base, variants, section, kind)
        document = presets.with_value(document, section, kept)
        edits = sorted(self._edits.items(), key=lambda pair: pair[1].at)
        for path, edit in edits:
            is_inside = path.startswith(f"{section}.") and path != f"{section}.{KIND}"
            if is_inside and edit.at > since:
                document = _with_edit(document, path, edit)
        return document

    def with_objective(self, document: Document) -> Document:
        """Return the document with an objective that its method supports.

        An objective that was replaced for another method returns if this method supports it.
        """
        fix = required_objective(document)
        if fix is None:
            return document
        left = [(at, kind) for (path, kind), (at, _) in self._saved.items() if path == _OBJECTIVE]
        variants = [*(kind for _, kind in sorted(left, reverse=True)), str(fix.value)]
        made = (self.with_variant(document, _OBJECTIVE, kind) for kind in variants)
        return next((one for one in made if required_objective(one) is None), document)

    def _save(self, document: Document, variants: Variants) -> None:
        for section, kind in variants:
            there = value_in(document, section)
            if isinstance(there, Mapping) and there.get(KIND) == kind:
                self._saved[section, kind] = (self._change_count, there)


def _is_edit_within(path: str, variants: Variants, same: set[str]) -> bool:
    """Return whether a setting is in a section with variants, none of which has changed."""
    around = [section for section, _ in variants if path.startswith(f"{section}.")]
    if around and is_variant_choice(path):
        around.remove(section_of(path))  # the choice of this variant is the edit
        return bool(around) and same.issuperset(around)
    return bool(around) and same.issuperset(around)


def _with_edit(document: Document, path: str, edit: _Edit) -> Document:
    variants = variants_in(document)
    setting = settings_by_path(variants).get(path)
    value = value_in(defaults_in(variants), path) if edit.is_default else edit.value
    if setting is None or (setting.kind == "choice" and value not in setting.choices):
        return document
    if is_variant_choice(path):
        is_other = value != value_in(document, path)
        return (
            presets.with_variant(document, section_of(path), str(value)) if is_other else document
        )
    return presets.with_value(document, path, _compatible(setting, value))


def _compatible(setting: Setting, value: object) -> object:
    """Return a value from another variant; list entries keep only the fields known here."""
    if setting.item is None or not isinstance(value, list):
        return value
    known = setting.item.model_fields
    return [
        {key: value for key, value in entry.items() if key in known}
        if isinstance(entry, dict)
        else entry
        for entry in value
    ]
