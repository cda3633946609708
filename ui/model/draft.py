"""Config that is being edited: its values, their problems, and undo."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from onetrainer.config.fields import Setting
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Offer, Problem, ProblemsError
from onetrainer.json_file import Document
from onetrainer.presets import presets
from onetrainer.presets.find import Preset, preset_name
from onetrainer.presets.own_presets import notes_of
from onetrainer.presets.presets import value_at
from ui.model import preset_fields
from ui.model.preset_origin import PresetOrigin, require_outside_run
from ui.model.value_check import ValueCheck, check_values
from ui.model.variants import (
    Edits,
    Variants,
    defaults_in,
    edited,
    edits_between,
    is_variant_choice,
    migrated_document,
    section_alone,
    section_of,
    settings_by_path,
    settings_in,
    variants_in,
    with_variants,
)

_DEEPEST_UNDO = 200
# Every run needs these and no preset knows them, so filling them in does not change the preset.
REQUIRED = ("model.path", "data.folder")
# Until the files are checked, the window must not say that the run is ready to start.
PENDING = Problem("", "the files have not been checked yet", severity="pending")

Listener = Callable[[], None]
FileSettings = tuple[object, ...]


class Snapshot(NamedTuple):
    """State that undo returns to.

    Attributes:
        path: Setting that was changed then; "" if several were.
        loaded: Base and origin before another config was loaded; None for all other changes.
    """

    path: str
    document: Document
    edits: Edits
    loaded: tuple[Document, PresetOrigin] | None = None


class Draft:
    """Values being edited, as a document that may be invalid.

    Attributes:
        base: Document that was loaded or saved last.
        variants: Chosen variant of every section that has variants.
        problems: All that is wrong; "missing" is what a person has not come to yet.
        load_count: How often a config was loaded.
        implied_change: What the last choice of a variant has changed elsewhere.
        is_held: Whether it is not checked yet, as while the window opens.
    """

    is_held = False

    def __init__(self) -> None:
        self.origin = PresetOrigin()
        self.variants: Variants = variants_in({})
        self.base: Document = defaults_in(self.variants)
        self.document: Document = self.base
        self.load_count = 0
        self.implied_change: Fix | None = None
        self.problems: list[Problem] = []
        self.value_errors: list[Problem] = []
        self._edits: Edits = {}
        self._base_as_chosen = (self.base, self.variants, *with_variants(self.base, self.variants))
        self._by_path: dict[str, list[Problem]] = {}
        self._file_problems: list[Problem] = []
        self._checked_inputs: FileSettings | None = None
        self._left: set[str] = set()
        self._undo: list[Snapshot] = []
        self._redo: list[Snapshot] = []
        self._listeners: list[Listener] = []
        self._find_problems()

    def listen(self, listener: Listener) -> None:
        """Call a function after each change."""
        self._listeners.append(listener)

    def forget_listeners(self) -> None:
        """Call none of the functions any more."""
        self._listeners.clear()

    def notify(self) -> None:
        """Call all listeners, though no value has changed."""
        for listener in self._listeners:
            listener()

    def value(self, path: str) -> object:
        """Return the value at a path; list entries are numbered: "sampling.prompts.0.seed"."""
        return value_at(self.document, path)

    def setting(self, path: str) -> Setting | None:
        """Return the setting at a path; None if the chosen variants lack it."""
        return settings_by_path(self.variants).get(path)

    def base_value(self, path: str) -> object:
        """Return the loaded or saved value of a setting, converted to the chosen variants."""
        *_, base, variants = self._base_as_chosen
        return variants.get(path) if is_variant_choice(path) else value_at(base, path)

    def default(self, path: str) -> object:
        """Return the default of a setting in the chosen variants."""
        setting = self.setting(path)
        if setting is not None and is_variant_choice(path):
            return setting.default
        return value_at(defaults_in(self.variants), path)

    def set(self, path: str, value: object) -> None:
        """Change one setting; consecutive changes of one setting are undone as one.

        Choosing a variant restores its section; a method may also change the objective.
        """
        if self.value(path) == value and type(self.value(path)) is type(value):
            return
        self._change(path, *edited(self.document, self.base, self._edits, path, value))

    def set_all(self, values: Mapping[str, object]) -> None:
        """Change several settings as one undo step."""
        document, edits = self.document, self._edits
        for path, value in values.items():
            if value_at(document, path) != value:
                document, edits = edited(document, self.base, edits, path, value)
        if document != self.document:
            self._change("", document, edits)

    def apply(self, fix: Fix) -> None:
        """Make the change that fixes a problem, as one undo step."""
        also = fix.also if isinstance(fix, Offer) else ()
        self.set_all({one.path: one.value for one in (fix, *also)})

    def reset(self, path: str) -> None:
        """Reset one setting to its loaded or saved value; for a variant, its whole section."""
        if not is_variant_choice(path):
            self.set(path, self.base_value(path))
            return
        section = f"{section_of(path)}."
        left = {p: edit for p, edit in self._edits.items() if not p.startswith(section)}
        self._change(path, *edited(self.document, self.base, left, path, self.base_value(path)))

    def reset_all(self) -> None:
        """Reset every setting to its loaded or saved value; can be undone."""
        kept = {p: self.value(p) for p in REQUIRED if p in self.origin.user_settings}
        document = self.base
        for path, value in kept.items():
            document = presets.with_value(document, path, value)
        if document != self.document:
            self._change("", document, kept)

    @property
    def last_change(self) -> Snapshot | None:
        """State that `undo` returns to; None if there is none."""
        return self._undo[-1] if self._undo else None

    def undo(self) -> None:
        """Undo the last change or load."""
        self._move_in_history(self._undo, self._redo)

    def redo(self) -> None:
        """Redo the change that was undone last."""
        self._move_in_history(self._redo, self._undo)

    def changed(self) -> list[str]:
        """Return the paths of settings that differ from the loaded or saved ones."""
        known = settings_in(self.variants) if self.is_dirty else ()
        return [s.path for s in known if self.is_changed(s.path)]

    def is_changed(self, path: str) -> bool:
        """Return whether a setting differs from its loaded or saved value.

        A model path and image folder that the preset leaves to the user never count as changed.
        """
        if path in REQUIRED and path in self.origin.user_settings:
            return False
        return self.value(path) != self.base_value(path)

    @property
    def is_dirty(self) -> bool:
        """Whether there are changes to save."""
        return self.document != self.base

    def is_default(self, path: str) -> bool:
        """Return whether a setting has its default value."""
        return self.value(path) == self.default(path)

    def leave(self, *paths: str) -> None:
        """Report from now on that these required settings are empty; without any, all of them."""
        left = {path for path in paths or REQUIRED if path in REQUIRED} - self._left
        if left:
            self._left |= left
            self._changed()

    @property
    def is_startable(self) -> bool:
        """Whether nothing known prevents a start."""
        return not any(problem.severity in ("error", "missing") for problem in self.problems)

    def problem(self, path: str) -> Problem | None:
        """Return the worst problem of one setting; None if it has none."""
        return next(iter(self.problems_at(path)), None)

    def problems_at(self, path: str) -> list[Problem]:
        """Return the problems of one setting, errors first."""
        return self._by_path.get(path, [])

    @property
    def file_settings(self) -> FileSettings:
        """Values that the check of files and folders depends on."""
        return tuple(self.value(path) for path in preset_fields.checked_settings())

    @property
    def needs_file_check(self) -> bool:
        """Whether the current files and folders have not been checked yet."""
        return self._checked_inputs is None or self._checked_inputs != self.file_settings

    def set_file_problems(
        self, problems: list[Problem], file_settings: FileSettings | None = None
    ) -> None:
        """Store the problems of the checked files until those settings change."""
        self._checked_inputs = self.file_settings if file_settings is None else file_settings
        self._file_problems = list(problems)
        self._changed()

    def files_config(self) -> TrainConfig:
        """Return a config with the valid file settings; everything else has its default."""
        document = defaults_in(self.variants)
        wrong = self._checked.invalid
        for path in preset_fields.checked_settings():
            is_wrong = any(f"{place}.".startswith(f"{path}.") for place in wrong)
            if not is_wrong and self.setting(path) is not None:
                document = presets.with_value(document, path, self.value(path))
        return presets.resolve(document, source="")

    def section_alone(self, section: str) -> TrainConfig | None:
        """Return a config of one section as edited and defaults elsewhere; None if invalid."""
        try:
            return presets.resolve(section_alone(self.document, self.variants, section), source="")
        except ProblemsError:
            return None

    def config(self) -> TrainConfig:
        """Return the complete config; raise ProblemsError if a value is invalid."""
        return presets.resolve(self.document, source="")

    def valid_config(self) -> TrainConfig | None:
        """Return the complete config; None while a value is invalid or not checked yet."""
        return self._checked.config

    def load(self, path: Path, *, preset: Preset | None = None) -> list[str]:
        """Load a config file; settings that it omits get their defaults.

        A built-in preset keeps the user's model, images, prompts, names and metadata, except those
        of the demo.

        Returns:
            The user's changed settings that were replaced; `undo` restores them.

        Raises:
            UserError: If the file cannot be read or holds invalid values.
        """
        document, origin = preset_fields.open_config(path, preset, self.value)
        # What the user has changed, now or under an earlier preset.
        paths = (setting.path for setting in settings_in(self.variants))
        changed = [p for p in paths if self.value(p) != self.base_value(p)]
        changed += [p for p in self.origin.user_settings if not self.is_default(p)]
        replaced = [p for p in dict.fromkeys(changed) if self.value(p) != value_at(document, p)]
        if (document, document, origin) != (self.document, self.base, self.origin):
            self._push_undo("", loaded=(self.base, self.origin))
            self._redo.clear()
        self.origin, self._edits = origin, {}
        self.base = self.document = document
        self._loaded()
        return replaced

    def begin(self, new: Preset, answers: Mapping[str, object], *, kept: Collection[str]) -> None:
        """Begin anew with a preset and answers, as one undo step; `kept` are as they were."""
        document, origin = preset_fields.open_config(new.path, new, lambda _: None)
        for place, value in ({one: self.value(one) for one in kept} | dict(answers)).items():
            document = presets.with_value(document, place, value)
        self._push_undo("", loaded=(self.base, self.origin))
        self._redo.clear()
        self.origin, self._edits = origin, {}
        self.base = self.document = document
        self._loaded()

    def restore(self, document: Document, base: Document, origin: PresetOrigin) -> None:
        """Restore the draft of an earlier window."""
        self.origin, self.base = origin, migrated_document(base)
        self.document = migrated_document(document)
        self._edits = edits_between(self.base, self.document)
        self._left.clear()
        self._undo.clear()
        self._redo.clear()
        self._loaded()

    def save(self, path: Path, *, description: str = "") -> None:
        """Save the values as a preset.

        Raises:
            UserError: If a value is invalid, the file cannot be written or belongs to a run.
        """
        require_outside_run(path)
        config = preset_fields.portable_config(self.config())
        presets.save_preset(config, path, description=description, notes=notes_of(path))
        self.origin = PresetOrigin(preset_name(path), path, True, description)
        before, self.document = self.document, config.model_dump(mode="json")
        self.base = self.document
        # Relative paths have become absolute.
        for setting in self._edits:
            if value_at(before, setting) != value_at(self.base, setting):
                self._edits = {**self._edits, setting: value_at(self.base, setting)}
        self._changed()

    def set_origin(self, origin: PresetOrigin) -> None:
        """Follow the file of the draft, which was renamed, described otherwise or deleted."""
        self.origin = origin
        self._changed()

    def _loaded(self) -> None:
        self.load_count += 1
        self._changed()

    def _change(self, path: str, document: Document, edits: Edits) -> None:
        """Change the document; consecutive changes at one path are one undo step."""
        if not path or not self._undo or self._undo[-1].path != path or self._redo:
            self._push_undo(path)
        before, self.document, self._edits = self.document, document, edits
        objective = str(self.value("objective.kind"))
        is_implied = path == "method.kind" and objective != value_at(before, "objective.kind")
        self.implied_change = Fix("objective.kind", objective) if is_implied else None
        self._redo.clear()
        self._changed()

    def _push_undo(self, path: str, *, loaded: tuple[Document, PresetOrigin] | None = None) -> None:
        self._undo.append(Snapshot(path, self.document, self._edits, loaded))
        del self._undo[:-_DEEPEST_UNDO]

    def _move_in_history(self, back: list[Snapshot], forth: list[Snapshot]) -> None:
        if not back:
            return
        before = back.pop()
        loaded = (self.base, self.origin) if before.loaded is not None else None
        forth.append(Snapshot(before.path, self.document, self._edits, loaded))
        self.document, self._edits = before.document, before.edits
        if before.loaded is not None:
            self.base, self.origin = before.loaded
            self.load_count += 1
        self._changed()

    def _changed(self) -> None:
        self.variants = variants_in(self.document)
        known_base, known_variants, *_ = self._base_as_chosen
        if known_base is not self.base or known_variants != self.variants:
            converted = with_variants(self.base, self.variants)
            self._base_as_chosen = (self.base, self.variants, *converted)
        self._find_problems()
        self.notify()

    def _check(self) -> ValueCheck:
        return check_values(self.document)

    def _find_problems(self) -> None:
        self._checked = self._check()
        found = [*self._checked.problems]
        self.value_errors = [problem for problem in found if problem.severity == "error"]
        wrong = {problem.path for problem in self.value_errors}
        # An invalid value needs no further message.
        if self._checked_inputs is not None:
            checked = preset_fields.still_valid(
                self._file_problems, self._checked_inputs, self.file_settings
            )
            found += [problem for problem in checked if problem.path not in wrong]
        # A person who has not come to a field yet has made no mistake there.
        ahead = {path for path in REQUIRED if path not in self._left and not self.value(path)}
        for place, one in enumerate(found):
            if one.path in ahead and one.severity == "error":
                found[place] = replace(one, severity="missing")
        self._by_path = {}
        for problem in sorted(found, key=lambda problem: problem.severity != "error"):
            if problem.severity != "missing":
                self._by_path.setdefault(problem.path, []).append(problem)
        self.problems = found + ([PENDING] if self.needs_file_check else [])
