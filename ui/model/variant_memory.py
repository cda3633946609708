"""What each kind of a section was like when it was left, so that a person can try others. No Tk."""

from collections.abc import Mapping
from dataclasses import dataclass

from onetrainer.config.base.variants import KIND
from onetrainer.config.fields import Setting
from onetrainer.json_file import Document
from onetrainer.presets import presets
from ui.model.variants import (
    Kinds,
    brought_into,
    defaults_in,
    is_kind,
    kinds_in,
    objective_for,
    section_as,
    section_of,
    settings_by_path,
    settings_in,
    value_in,
)

_OBJECTIVE = "objective"


@dataclass(frozen=True)
class _Edit:
    """What a person has made of a setting last. at: which change of the document it was."""

    at: int
    value: object
    is_default: bool


class KeptKinds:
    """The sections of all kinds that were chosen since a config was opened, whatever is undone.

    A kind comes back as it was left, with what has been set in other kinds since. One that was not
    chosen yet is as it follows from what was opened, with what has been set since then.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._base = document
        self._now = 0
        self._left: dict[tuple[str, str], tuple[int, object]] = {}
        self._edits: dict[str, _Edit] = {}
        self.begin(document, document)

    def begin(self, base: Document, document: Document) -> None:
        """Forgets everything. base: what was opened; document: what has become of it."""
        self._base = base
        self._left, self._edits = {}, {}
        self._keep(base, kinds_in(base))
        self._document, _ = brought_into(base, kinds_in(document))
        self.watch(document)

    def rebase(self, base: Document) -> None:
        """Takes another document for what was opened: it has been saved."""
        self._base = base

    def forget(self, section: str) -> None:
        """Forgets the kinds of one section, and of those in it."""
        within = f"{section}."
        self._left = {
            key: kept for key, kept in self._left.items() if not f"{key[0]}.".startswith(within)
        }
        self._edits = {
            path: edit for path, edit in self._edits.items() if not path.startswith(within)
        }

    def watch(self, document: Document) -> None:
        """Takes in a change of the document, also one that was taken back."""
        before, self._document = self._document, document
        self._now += 1
        kinds = kinds_in(document)
        old = dict(kinds_in(before))
        same = {section for section, kind in kinds if old[section] == kind}
        changed = {key for key in document if document[key] != before.get(key)}
        for setting in settings_in(kinds):
            path = setting.path
            if path.partition(".")[0] not in changed or not _is_within(path, kinds, same):
                continue
            value = value_in(document, path)
            if value != value_in(before, path):
                is_default = value == value_in(defaults_in(kinds), path)
                self._edits[path] = _Edit(self._now, value, is_default)
        self._keep(document, kinds)

    def chosen(self, document: Document, section: str, kind: str) -> Document:
        """The document with a kind of section as it was left, or as it follows from the base."""
        since, kept = self._left.get((section, kind), (-1, None))
        if kept is None:
            kinds = kinds_in(presets.with_value(document, section, {KIND: kind}))
            kept = section_as(self._base, kinds, section, kind)
        document = presets.with_value(document, section, kept)
        edits = sorted(self._edits.items(), key=lambda pair: pair[1].at)
        for path, edit in edits:
            is_inside = path.startswith(f"{section}.") and path != f"{section}.{KIND}"
            if is_inside and edit.at > since:
                document = _with_edit(document, path, edit)
        return document

    def with_objective(self, document: Document) -> Document:
        """The document with an objective that goes with its method, if its own does not.

        The one that was left for the sake of another method comes back, if it goes with this one.
        """
        fix = objective_for(document)
        if fix is None:
            return document
        left = [(at, kind) for (path, kind), (at, _) in self._left.items() if path == _OBJECTIVE]
        kinds = [*(kind for _, kind in sorted(left, reverse=True)), str(fix.value)]
        made = (self.chosen(document, _OBJECTIVE, kind) for kind in kinds)
        return next((one for one in made if objective_for(one) is None), document)

    def _keep(self, document: Document, kinds: Kinds) -> None:
        for section, kind in kinds:
            there = value_in(document, section)
            if isinstance(there, Mapping) and there.get(KIND) == kind:
                self._left[section, kind] = (self._now, there)


def _is_within(path: str, kinds: Kinds, same: set[str]) -> bool:
    """Whether a setting belongs to a section that comes in kinds, and all around are the same."""
    around = [section for section, _ in kinds if path.startswith(f"{section}.")]
    if around and is_kind(path):
        around.remove(section_of(path))  # the choice of this one's kind is the edit
        return bool(around) and same.issuperset(around)
    return bool(around) and same.issuperset(around)


def _with_edit(document: Document, path: str, edit: _Edit) -> Document:
    kinds = kinds_in(document)
    setting = settings_by_path(kinds).get(path)
    value = value_in(defaults_in(kinds), path) if edit.is_default else edit.value
    if setting is None or (setting.kind == "choice" and value not in setting.choices):
        return document
    if is_kind(path):
        is_other = value != value_in(document, path)
        return presets.with_kind(document, section_of(path), str(value)) if is_other else document
    return presets.with_value(document, path, _fitting(setting, value))


def _fitting(setting: Setting, value: object) -> object:
    """A value from another kind; of a list's entries only what entries have in this one."""
    if setting.item is None or not isinstance(value, list):
        return value
    known = setting.item.model_fields
    return [
        {key: part for key, part in entry.items() if key in known}
        if isinstance(entry, dict)
        else entry
        for entry in value
    ]
