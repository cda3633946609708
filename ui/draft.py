"""The config being edited: its values, what is wrong with them, and the way back. No Tk."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from onetrainer import presets
from onetrainer.config.fields import settings
from onetrainer.config.rules import broken_rules
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Problem, ProblemsError
from onetrainer.json_file import Document
from onetrainer.presets import Preset
from ui.origins import require_no_run, run_of, without_demo

_DEEPEST_UNDO = 200
_SETTINGS = tuple(settings(TrainConfig))
# What belongs to the base model: it stays or goes with the model's path.
_OF_THE_MODEL = ("model.path", "model.vae", "model.prediction", "model.zero_terminal_snr")
# What belongs to the person rather than to a way of training; a preset that says nothing of
# these leaves them as they are.
_PERSONAL = tuple(
    setting.path
    for setting in _SETTINGS
    if setting.ui.is_path
    or setting.kind == "list"
    or setting.path in (*_OF_THE_MODEL, "model.offline", "output.name")
    or setting.path.startswith("metadata.")
)

# What every run needs and no preset can know: filling it in is no change to the preset.
_TO_CHOOSE = ("model.path", "data.folder")

# What a look at files and folders depends on.
LOOKED_AT = tuple(
    setting.path
    for setting in _SETTINGS
    if setting.ui.is_path or setting.path.startswith(("model.", "data."))
)
# Stands among the problems as long as nobody has looked at the files that are named now: it
# forbids nothing, but "ready" cannot be said.
PENDING = Problem("", "the files have not been looked at yet", severity="pending")

Listener = Callable[[], None]
Question = tuple[object, ...]


@dataclass(frozen=True)
class Source:
    """Where the values were loaded from.

    path: None for none. is_own: whether it can be saved over. leaves: the person's settings that it
    says nothing of.
    """

    name: str = ""
    path: Path | None = None
    is_own: bool = False
    description: str = ""
    leaves: tuple[str, ...] = ()


@dataclass(frozen=True)
class Before:
    """What a change can be taken back to.

    path: the setting that was changed; "" where there were many. loaded: what had been loaded or
    saved, and from where, if the change was to load something else; None for all other changes.
    """

    document: Document
    path: str
    loaded: tuple[Document, Source] | None = None


class Draft:
    """Values being edited, as a document; a value may be wrong until it is put right.

    `base` is what was loaded or saved last: what differs from it counts as changed.
    """

    def __init__(self) -> None:
        self.source = Source()
        self.base: Document = _defaults()
        self.document: Document = self.base
        self.problems: list[Problem] = []
        self.value_errors: list[Problem] = []
        self._by_path: dict[str, list[Problem]] = {}
        self._from_check: list[Problem] = []
        self._answered: Question | None = None
        self._undo: list[Before] = []
        self._redo: list[Before] = []
        self._listeners: list[Listener] = []
        self._find_problems()

    def listen(self, listener: Listener) -> None:
        """Has a function called after each change."""
        self._listeners.append(listener)

    def value(self, path: str) -> object:
        """The value at a path; entries of lists are counted: "sampling.prompts.0.seed"."""
        return _at(self.document, path)

    def base_value(self, path: str) -> object:
        """The value that was loaded or saved."""
        return _at(self.base, path)

    def set(self, path: str, value: object) -> None:
        """Changes one setting. Changes to one setting in a row are undone as one."""
        if self.value(path) == value and type(self.value(path)) is type(value):
            return
        follows = bool(self._undo) and self._undo[-1].path == path and not self._redo
        if not follows:
            self._remember(path)
        self._redo.clear()
        self.document = presets.with_value(self.document, path, value)
        self._tell()

    def reset(self, path: str) -> None:
        """Takes one setting back to what was loaded or saved."""
        self.set(path, self.base_value(path))

    def reset_all(self) -> None:
        """Takes every change back to what was loaded or saved; can be undone."""
        document = self.document
        for path in self.changed():
            document = presets.with_value(document, path, self.base_value(path))
        if document != self.document:
            self._remember("")
            self._redo.clear()
            self.document = document
            self._tell()

    @property
    def last_change(self) -> Before | None:
        """What `undo` goes back to; None if there is nothing."""
        return self._undo[-1] if self._undo else None

    def undo(self) -> None:
        """Takes the last change back; also that another preset was opened."""
        self._go(self._undo, self._redo)

    def redo(self) -> None:
        """Makes the change again that was taken back last."""
        self._go(self._redo, self._undo)

    def changed(self) -> list[str]:
        """The paths of settings that differ from what was loaded or saved."""
        paths = (setting.path for setting in _SETTINGS)
        return [path for path in paths if self.is_changed(path)]

    def is_changed(self, path: str) -> bool:
        """Whether a setting differs from what was loaded or saved.

        The model and the pictures do not where the preset leaves them to the person.
        """
        if path in _TO_CHOOSE and path in self.source.leaves:
            return False
        return self.value(path) != self.base_value(path)

    @property
    def is_dirty(self) -> bool:
        """Whether there is anything to save."""
        return self.document != self.base

    def is_default(self, path: str) -> bool:
        """Whether a setting has the value that the config gives it by itself."""
        return self.value(path) == _at(_defaults(), path)

    def problem(self, path: str) -> Problem | None:
        """What is wrong with one setting, the worst of it; None if nothing is."""
        return next(iter(self.problems_at(path)), None)

    def problems_at(self, path: str) -> list[Problem]:
        """Everything wrong with one setting, errors first."""
        return self._by_path.get(path, [])

    @property
    def errors(self) -> list[Problem]:
        """The problems that forbid a start."""
        return [problem for problem in self.problems if problem.severity == "error"]

    @property
    def question(self) -> Question:
        """The values that a look at files and folders depends on."""
        return tuple(self.value(path) for path in LOOKED_AT)

    @property
    def awaits_look(self) -> bool:
        """Whether the files that are named now have not been looked at yet."""
        return self._answered != self.question

    def add_problems(self, problems: list[Problem], question: Question | None = None) -> None:
        """Marks what a look at files and folders has found, until those settings change.

        question: the values that were looked at, if they may have changed meanwhile.
        """
        self._answered = self.question if question is None else question
        self._from_check = list(problems)
        self._tell()

    def files_config(self) -> TrainConfig:
        """The files and folders that are named; values that are wrong, and others, by default."""
        document = _defaults()
        wrong = {problem.path for problem in self._invalid()}
        for path in LOOKED_AT:
            if path not in wrong:
                document = presets.with_value(document, path, self.value(path))
        return presets.resolve(document, source="")

    def config(self) -> TrainConfig:
        """The finished config. Raises ProblemsError if a value is wrong."""
        return presets.resolve(self.document, source="")

    def load(self, path: Path, *, preset: Preset | None = None) -> list[str]:
        """Takes over a preset; values it says nothing of become the defaults.

        Model, pictures, prompts, names and what the finished file tells stay where the preset does
        not name them; the demo's do not, they belong to it. A run's config is the run's own and no
        preset to save over. Gives the settings whose values were a person's own and are set aside;
        `undo` brings them back. Raises UserError if the file cannot be read, or holds wrong values.
        """
        loaded = presets.load_document(path)
        document = presets.resolve(loaded, source=str(path)).model_dump(mode="json")
        has_model = presets.value_at(loaded, "model.path") is not None
        for personal in _PERSONAL:
            kept = without_demo(self.value(personal))
            is_named = presets.value_at(loaded, personal) is not None
            is_others = has_model and personal in _OF_THE_MODEL
            if not is_named and not is_others and kept is not None:
                document = presets.with_value(document, personal, kept)
        run = run_of(path)
        own = run is None and not path.is_relative_to(presets.BUILT_IN)
        name = preset.name if preset else run.name if run else path.stem
        leaves = tuple(p for p in _PERSONAL if presets.value_at(loaded, p) is None)
        source = Source(name, path, own, str(loaded.get("description", "")), leaves)
        aside = [p for p in self._own_values() if self.value(p) != _at(document, p)]
        if (document, document, source) != (self.document, self.base, self.source):
            self._remember("", loaded=(self.base, self.source))
            self._redo.clear()
        self.source = source
        self.base = self.document = document
        self._tell()
        return aside

    def restore(self, document: Document, base: Document, source: Source) -> None:
        """Takes over what an earlier window was editing."""
        self.source, self.base = source, _merged(_defaults(), base)
        self.document = _merged(_defaults(), document)
        self._undo.clear()
        self._redo.clear()
        self._tell()

    def save(self, path: Path, *, description: str = "") -> None:
        """Writes the values as a preset.

        Raises UserError if a value is wrong, the file cannot be written, or is one of a run.
        """
        require_no_run(path)
        config = self.config()
        presets.save_preset(config, path, description=description)
        own = presets.user_folder() / "presets"
        name = path.stem
        if path.is_relative_to(own):
            name = path.relative_to(own).with_suffix("").as_posix()
        leaves = tuple(path for path in _PERSONAL if self.is_default(path))
        self.source = Source(name, path, True, description, leaves)
        self.document = config.model_dump(mode="json")
        self.base = self.document
        self._tell()

    def _own_values(self) -> list[str]:
        """The settings whose values come from the person, now or under an earlier preset."""
        left = (p for p in self.source.leaves if not self.is_default(p))
        changed = (s.path for s in _SETTINGS if self.value(s.path) != self.base_value(s.path))
        return list(dict.fromkeys([*changed, *left]))

    def _remember(self, path: str, *, loaded: tuple[Document, Source] | None = None) -> None:
        self._undo.append(Before(self.document, path, loaded))
        del self._undo[:-_DEEPEST_UNDO]

    def _go(self, back: list[Before], forth: list[Before]) -> None:
        if not back:
            return
        before = back.pop()
        loaded = (self.base, self.source) if before.loaded is not None else None
        forth.append(Before(self.document, before.path, loaded))
        self.document = before.document
        if before.loaded is not None:
            self.base, self.source = before.loaded
        self._tell()

    def _tell(self) -> None:
        self._find_problems()
        for listener in self._listeners:
            listener()

    def _invalid(self) -> list[Problem]:
        try:
            self.config()
        except ProblemsError as error:
            return list(error.problems)
        return []

    def _find_problems(self) -> None:
        found = self._invalid() or broken_rules(self.config())
        self.value_errors = [problem for problem in found if problem.severity == "error"]
        wrong = {problem.path for problem in self.value_errors}
        # Of a value that is wrong by itself nothing else needs to be said.
        found += [problem for problem in self._still_true() if problem.path not in wrong]
        self._by_path = {}
        for problem in sorted(found, key=lambda problem: problem.severity != "error"):
            self._by_path.setdefault(problem.path, []).append(problem)
        self.problems = found + ([PENDING] if self.awaits_look else [])

    def _still_true(self) -> list[Problem]:
        """What the last look at files has found, less what was said of other values."""
        if self._answered is None:
            return []
        pairs = zip(LOOKED_AT, self._answered, self.question, strict=True)
        changed = {path for path, old, new in pairs if old != new}
        return [
            problem
            for problem in self._from_check
            if problem.path not in changed
            and (problem.cure is None or problem.cure.path not in changed)
        ]


def _defaults() -> Document:
    document: Document = TrainConfig().model_dump(mode="json")
    return document


def _merged(base: Mapping[str, object], over: Mapping[str, object]) -> Document:
    merged: Document = dict(base)
    for key, value in over.items():
        inner = merged.get(key)
        if isinstance(inner, Mapping) and isinstance(value, Mapping):
            merged[key] = _merged(inner, value)
        elif key in merged:
            merged[key] = value
    return merged


def _at(document: Mapping[str, object], path: str) -> object:
    value: object = document
    for key in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list | tuple) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value
