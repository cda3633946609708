"""Config files and presets: find, load, merge, check, compare, save."""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from onetrainer.config.fields import settings
from onetrainer.config.migrate import Document, migrate
from onetrainer.config.problems import problems_of, shown
from onetrainer.config.train import VERSION, TrainConfig
from onetrainer.errors import Problem, ProblemsError, UserError
from onetrainer.run_folder import cannot_write, write_atomic

BUILT_IN = Path(__file__).resolve().parent.parent / "configs" / "presets"
# What a preset file may say about itself beside its settings.
ABOUT = ("description", "extends")


@dataclass(frozen=True)
class Preset:
    """A named config file. name: "sd15/lora", its path below its folder without the ending."""

    name: str
    path: Path
    description: str
    origin: Literal["built in", "yours"]


@dataclass(frozen=True)
class Difference:
    """One setting that two configs hold different values of."""

    path: str
    left: Any
    right: Any


def find_presets() -> list[Preset]:
    """The presets that come with the program, then the user's own; sorted by name."""
    own = user_folder() / "presets"
    return [*_presets_in(BUILT_IN, "built in"), *_presets_in(own, "yours")]


def user_folder() -> Path:
    """Where this user's presets and window settings are kept."""
    if sys.platform == "win32":
        base = Path(os.environ.get("APPDATA", Path.home()))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return base / "onetrainer"


def locate(name_or_path: str) -> Path:
    """The config file meant by a path or by a preset's name. Raises UserError if there is none."""
    path = Path(name_or_path).expanduser()
    if path.is_file():
        return path
    presets = find_presets()
    for preset in presets:
        if preset.name == name_or_path:
            return preset.path
    what = "this is a folder" if path.is_dir() else "there is no such file or preset"
    raise UserError(
        f"{name_or_path}: {what}",
        "Expected a config file, or one of the presets: " + ", ".join(p.name for p in presets),
        "Check the name; `onetrainer presets` lists them.",
    )


def load_document(path: Path) -> Document:
    """A config file's settings as they are to be used: migrated, extended, paths absolute.

    Raises UserError if the file cannot be read as a config.
    """
    return _load(path, parents=())


def resolve(document: Mapping[str, Any], *, source: str) -> TrainConfig:
    """The config of a document over the defaults. Raises ProblemsError with everything wrong."""
    try:
        # Strict JSON rules: 3 is no text, true is no number; lists become tuples.
        return TrainConfig.model_validate_json(json.dumps(_settings_of(document)), strict=True)
    except ValidationError as error:
        raise ProblemsError(problems_of(error, TrainConfig), source) from error


def find_problems(document: Mapping[str, Any]) -> list[Problem]:
    """What a form would mark: each setting that is wrong by itself."""
    try:
        resolve(document, source="")
    except ProblemsError as error:
        return error.problems
    return []


def with_overrides(document: Document, overrides: Iterable[str]) -> Document:
    """The document with `key.path=value` settings over it; values are JSON, else text.

    Raises UserError for text that is not of that form.
    """
    for text in overrides:
        path, equals, value = text.partition("=")
        if not equals or not path.strip():
            raise UserError(
                f"--set {text}: this is not a setting",
                "Expected key.path=value, such as training.steps=500",
                "Correct it.",
            )
        document = with_value(document, path.strip(), _value_of(path.strip(), value))
    return document


def with_value(document: Mapping[str, Any], path: str, value: Any) -> Document:
    """The document with one setting changed; numbers in the path are places in a list."""
    key, _, rest = path.partition(".")
    if not rest:
        return {**document, key: value}
    inner = document.get(key)
    if isinstance(inner, list | None) and rest.partition(".")[0].isdecimal():
        return {**document, key: _with_item(inner or [], rest, value)}
    return {**document, key: with_value(inner if isinstance(inner, dict) else {}, rest, value)}


def with_absolute_paths(config: TrainConfig) -> TrainConfig:
    """The config with every path absolute, so that it means the same wherever it is read.

    What is still relative is taken from the current folder; a loaded file's paths are absolute
    already, taken from the file's own folder.
    """
    document = _with_absolute_paths(config.model_dump(mode="json"), Path.cwd())
    return resolve(document, source="")


def diff(left: TrainConfig, right: TrainConfig) -> list[Difference]:
    """The settings in which two configs differ, in the order of the file."""
    one, other = left.model_dump(mode="json"), right.model_dump(mode="json")
    pairs = (
        (s.path, value_at(one, s.path), value_at(other, s.path)) for s in settings(TrainConfig)
    )
    return [Difference(path, a, b) for path, a, b in pairs if a != b]


def as_preset(config: TrainConfig, *, description: str = "") -> Document:
    """The document that holds only what differs from the defaults."""
    document: Document = {"version": VERSION}
    if description:
        document["description"] = description
    for difference in diff(TrainConfig(), config):
        document = with_value(document, difference.path, difference.right)
    return document


def save_preset(config: TrainConfig, path: Path, *, description: str = "") -> None:
    """Writes a preset file, complete or not at all. Raises UserError if it cannot be written."""
    text = json.dumps(as_preset(config, description=description), indent=2, ensure_ascii=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, (text + "\n").encode())
    except OSError as error:
        raise cannot_write(path, error) from error


def value_at(document: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    value: Any = document
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _load(path: Path, *, parents: tuple[Path, ...]) -> Document:
    document = migrate(_read_json(path), source=str(path))
    base = document.get("extends")
    document = _with_absolute_paths(document, path.absolute().parent)
    if base is None:
        return document
    if path in parents:
        raise UserError(f"{path}: extends itself through {base}", "", 'Remove one "extends".')
    if not isinstance(base, str):
        raise UserError(f'{path}: "extends" is {shown(base)}', "Expected a preset's name", "")
    beside = path.parent / base
    found = beside if beside.is_file() else locate(base)
    return _merge(_load(found, parents=(*parents, path)), document)


def _read_json(path: Path) -> Document:
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"{path}: cannot be read ({reason})", "", "Check the path.") from error
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: this is not a text file", "Expected a JSON config", "Choose another file."
        ) from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UserError(
            f"{path}: {place}: {error.msg}", "Expected valid JSON", "Correct that place."
        ) from error
    if not isinstance(document, dict):
        raise UserError(f"{path}: holds {shown(document)}", "Expected settings in { }", "")
    return document


def _with_absolute_paths(document: Document, folder: Path) -> Document:
    for setting in settings(TrainConfig):
        value = value_at(document, setting.path)
        if setting.ui.is_path and isinstance(value, str) and value:
            absolute = os.path.normpath(folder / Path(value).expanduser())
            document = with_value(document, setting.path, absolute)
    return document


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Document:
    merged = dict(base)
    for key, value in over.items():
        inner = merged.get(key)
        merged[key] = value
        # Another variant of a union starts from its own defaults, not from the old one's values.
        if isinstance(inner, dict) and isinstance(value, dict):
            kind = inner.get("kind")
            if value.get("kind", kind) == kind:
                merged[key] = _merge(inner, value)
    return merged


def _settings_of(document: Mapping[str, Any]) -> Document:
    return {key: value for key, value in document.items() if key not in ABOUT}


def _with_item(items: list[Any], rest: str, value: Any) -> list[Any]:
    place, _, inner = rest.partition(".")
    changed = list(items)
    index = int(place)
    if index > len(items):
        raise UserError(f"entry {index} of a list of {len(items)} is set", "", "Set one before.")
    old = items[index] if index < len(items) else {}
    new = with_value(old if isinstance(old, dict) else {}, inner, value) if inner else value
    changed[index : index + 1] = [new]
    return changed


def _value_of(path: str, text: str) -> Any:
    known = {setting.path: setting for setting in settings(TrainConfig)}
    setting = known.get(path)
    if setting is not None and setting.kind == "text":
        is_place = setting.ui.is_path and text
        return os.path.abspath(Path(text).expanduser()) if is_place else text  # noqa: PTH100
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _presets_in(folder: Path, origin: Literal["built in", "yours"]) -> list[Preset]:
    found = []
    for path in sorted(folder.rglob("*.json")):
        try:
            document = _read_json(path)
        except UserError:
            description = "This file cannot be read as a preset."
        else:
            description = str(document.get("description", ""))
        name = path.relative_to(folder).with_suffix("").as_posix()
        found.append(Preset(name, path, description, origin))
    return found
