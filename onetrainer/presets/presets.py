"""Config files and presets: find, load, merge, check, save."""

import difflib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from onetrainer import ROOT
from onetrainer.config.base.variants import KIND, kinds_of, with_kinds
from onetrainer.config.fields import Setting, is_there, setting_at, settings
from onetrainer.config.migrate import migrate
from onetrainer.config.problems import problems_of, shown, unprintable
from onetrainer.config.renamed import current_path
from onetrainer.config.train import VERSION, TrainConfig
from onetrainer.errors import ProblemsError, UserError
from onetrainer.json_file import Document, parse, read_json, shortened
from onetrainer.model_files.hub import is_hub_name
from onetrainer.run.run_folder import RunFolder, cannot_write, write_atomic
from onetrainer.run.user_folder import user_folder
from onetrainer.trust.function_file import absolute_spec

BUILT_IN = ROOT / "configs" / "presets"
# What a preset file may say about itself beside its settings.
ABOUT = ("description", "extends")
_LONGEST_NAME = 4096


@dataclass(frozen=True)
class Preset:
    """A named config file. name: "sd15/lora", its path below its folder without the ending."""

    name: str
    path: Path
    description: str
    origin: Literal["built in", "yours"]


def find_presets() -> list[Preset]:
    """The presets that come with the program, then the user's own; sorted by name."""
    own = user_folder() / "presets"
    return [*_presets_in(BUILT_IN, "built in"), *_presets_in(own, "yours")]


def locate(
    name_or_path: str, *, may_be_run: bool = False, wanted: str = "a config file or a preset"
) -> Path:
    """The config file meant by a path or by a preset's name. Raises UserError if there is none.

    may_be_run: whether a run's folder stands for the config in it. wanted: what would do, for the
    error.
    """
    path = Path(expanded(name_or_path))
    if _is_file(path):
        return path
    run = RunFolder(path)
    if _is_file(run.config) and _is_file(run.events):
        if may_be_run:
            return run.config
        raise UserError(
            f"{shortened(path)}: this is the folder of a run",
            "Expected a config file or a preset",
            f"Go on with it by `onetrainer resume {shortened(path)}`, or name its"
            f" {run.config.name} to begin another run like it.",
        )
    presets = find_presets()
    for preset in presets:
        if preset.name == name_or_path:
            return preset.path
    is_folder = len(name_or_path) < _LONGEST_NAME and path.is_dir()
    what = "this is a folder" if is_folder else "there is no such file or preset"
    begun = [preset.name for preset in presets if preset.name.startswith(name_or_path)]
    alike = difflib.get_close_matches(name_or_path, [preset.name for preset in presets], n=3)
    meant = " or ".join(f'"{name}"' for name in alike)
    raise UserError(
        f"{shortened(Path(name_or_path))}: {what}",
        f"Expected {wanted}" + (f"; presets that begin so are {', '.join(begun)}" if begun else ""),
        f"Did you mean {meant}?"
        if alike and not begun
        else "Check the name; `onetrainer presets` lists them.",
    )


def load_document(path: Path) -> Document:
    """A config file's settings as they are to be used: migrated, extended, paths absolute.

    Raises UserError if the file cannot be read as a config.
    """
    return _load(path, parents=())


def resolve(document: Mapping[str, Any], *, source: str) -> TrainConfig:
    """The config of a document over the defaults. Raises ProblemsError with everything wrong."""
    broken = unprintable(document)
    if broken:
        raise ProblemsError(broken, source)
    try:
        # Strict JSON rules: 3 is no text, true is no number; lists become tuples.
        text = json.dumps(with_kinds(_settings_of(document), TrainConfig))
        return TrainConfig.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise ProblemsError(problems_of(error, TrainConfig), source) from error


def with_overrides(document: Document, overrides: Iterable[str]) -> Document:
    """The document with `key.path=value` settings over it; values are JSON, else text.

    Kinds come first, as another kind of section starts anew: the order in which they are given
    does not matter. Raises UserError for text that is not of that form.
    """
    found = []
    for text in overrides:
        path, equals, value = text.partition("=")
        if not equals or not path.strip():
            raise UserError(
                f"--set {text}: this is not a setting",
                "Expected key.path=value, such as training.steps=500",
                "Correct it.",
            )
        if path.strip() in ("version", *ABOUT):
            raise UserError(
                f"--set {text}: this belongs to the file, it is no setting",
                "Expected key.path=value, such as training.steps=500",
                "Change it in the file.",
            )
        path = current_path(path.strip())
        found.append((path, _value_of(path, value)))
    for path, value in sorted(found, key=lambda one: _rank(one[0])):
        document = _with_override(document, path, value)
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


def without(document: Mapping[str, Any], paths: Iterable[str]) -> Document:
    """The document without the settings at some paths; a whole list goes with a wrong entry."""
    lists = {setting.path for setting in settings(TrainConfig) if setting.kind == "list"}
    left = dict(document)
    for path in paths:
        owner = next((name for name in lists if path.startswith(f"{name}.")), path)
        section, _, key = owner.partition(".")
        inner = left.get(section)
        if key and isinstance(inner, dict):
            left[section] = {name: value for name, value in inner.items() if name != key}
        else:
            left.pop(section, None)
    return left


def with_absolute_paths(config: TrainConfig) -> TrainConfig:
    """The config with every path absolute, so that it means the same wherever it is read.

    What is still relative is taken from the current folder; a loaded file's paths are absolute
    already, taken from the file's own folder.
    """
    return with_paths(config, partial(_absolute, folder=Path.cwd()))


def with_paths(config: TrainConfig, change: Callable[[Setting, str], str]) -> TrainConfig:
    """The config with every path in it changed."""
    return resolve(_with_paths(config.model_dump(mode="json"), change), source="")


def as_preset(config: TrainConfig, *, description: str = "") -> Document:
    """The document that holds only what differs from the defaults."""
    document: Document = {"version": VERSION}
    if description:
        document["description"] = description
    whole = config.model_dump(mode="json")
    kinds = kinds_of(whole, TrainConfig)
    plain = defaults(kinds)
    for setting in settings(TrainConfig, kinds=kinds):
        value = value_at(whole, setting.path)
        section = setting.path.rpartition(".")[0]
        is_other_kind = setting.path.endswith(f".{KIND}") and value != setting.default
        if is_other_kind or value != value_at(plain, setting.path):
            # What a setting means depends on the kind it belongs to, so the kind goes along.
            if section in kinds:
                document = with_value(document, f"{section}.{KIND}", kinds[section])
            document = with_value(document, setting.path, value)
    return document


def defaults(kinds: Mapping[str, str]) -> Document:
    """Every setting's own value, for sections of these kinds (by path, as `kinds_of` tells)."""
    document: Document = {}
    for path, kind in kinds.items():
        setting = setting_at(f"{path}.{KIND}")
        if setting is not None and is_there(setting, kinds):
            document = with_value(document, setting.path, kind)
    whole: Document = resolve(document, source="").model_dump(mode="json")
    return whole


def with_kind(document: Mapping[str, Any], path: str, kind: str) -> Document:
    """The document with another kind of section at a path, such as "optimizer".

    What a person has set stays where the new kind has a setting of that name; everything else is
    as the new kind has it by itself.
    """
    old = defaults(kinds_of(document, TrainConfig))
    bare = with_value(document, path, {KIND: kind})
    kinds = kinds_of(bare, TrainConfig)
    changed = with_value(bare, path, value_at(defaults(kinds), path))
    for setting in settings(TrainConfig, kinds=kinds):
        value = value_at(document, setting.path)
        is_inside = setting.path.startswith(f"{path}.") and setting.path != f"{path}.{KIND}"
        is_set = value is not None and value != value_at(old, setting.path)
        if is_inside and is_set and (setting.kind != "choice" or value in setting.choices):
            changed = with_value(changed, setting.path, _fitting(setting, value))
    return changed


def _fitting(setting: Setting, value: Any) -> Any:
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


def save_preset(config: TrainConfig, path: Path, *, description: str = "") -> None:
    """Writes a preset file, complete or not at all. Raises UserError if it cannot be written."""
    text = json.dumps(as_preset(config, description=description), indent=2, ensure_ascii=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, (text + "\n").encode())
    except OSError as error:
        raise cannot_write(path, error) from error


def expanded(text: str) -> str:
    """A path with `~` made a home folder. Raises UserError for a user that is not there."""
    try:
        return str(Path(text).expanduser())
    except RuntimeError as error:
        raise UserError(
            f"{text}: there is no such user here", "Expected a path", "Correct it."
        ) from error


def value_at(document: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    value: Any = document
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _load(path: Path, *, parents: tuple[Path, ...]) -> Document:
    document = migrate(read_json(path), source=str(path))
    base = document.get("extends")
    document = _with_paths(document, partial(_absolute, folder=path.absolute().parent))
    if base is None:
        return document
    if path.resolve() in parents:
        raise UserError(f"{path}: extends itself through {base}", "", 'Remove one "extends".')
    if not isinstance(base, str):
        raise UserError(f'{path}: "extends" is {shown(base)}', "Expected a preset's name", "")
    beside = path.parent / base
    found = beside if _is_file(beside) else locate(base)
    return _merge(_load(found, parents=(*parents, path.resolve())), document)


def _with_paths(
    document: Document,
    change: Callable[[Setting, str], str],
    section: type[BaseModel] = TrainConfig,
) -> Document:
    for setting in settings(section):
        value = value_at(document, setting.path)
        if setting.ui.is_path and isinstance(value, str) and value:
            document = with_value(document, setting.path, change(setting, value))
        elif setting.item is not None and isinstance(value, list):
            own = setting.item
            entries = [
                _with_paths(entry, change, own) if isinstance(entry, dict) else entry
                for entry in value
            ]
            document = with_value(document, setting.path, entries)
    return document


def _absolute(setting: Setting, value: str, folder: Path) -> str:
    """The value as a path that is the same from everywhere; a hub's name stays as it is."""
    if setting.ui.editor == "model" and is_hub_name(value, folder):
        return value
    if setting.ui.editor == "function":
        return absolute_spec(value, folder)
    return os.path.normpath(folder / expanded(value))


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


def _rank(path: str) -> tuple[bool, int]:
    """Where an override comes: kinds first, of outer sections before those of inner ones."""
    is_kind = path.endswith(f".{KIND}") and setting_at(path) is not None
    return not is_kind, path.count(".") if is_kind else 0


def _with_override(document: Document, path: str, value: Any) -> Document:
    setting = setting_at(path)
    if setting is not None and path.endswith(f".{KIND}") and value in setting.choices:
        return with_kind(document, path.removesuffix(f".{KIND}"), value)
    return with_value(document, path, value)


def _with_item(items: list[Any], rest: str, value: Any) -> list[Any]:
    place, _, inner = rest.partition(".")
    changed = list(items)
    index = int(place)
    if index > len(items):
        raise UserError(
            f"--set …{rest}: entry {index} of a list with {len(items)} entries, counted from 0",
            f"Expected at most {len(items)}",
            "Set the entries before it too.",
        )
    old = items[index] if index < len(items) else {}
    new = with_value(old if isinstance(old, dict) else {}, inner, value) if inner else value
    changed[index : index + 1] = [new]
    return changed


def _value_of(path: str, text: str) -> Any:
    setting = setting_at(path)
    if setting is not None and setting.kind == "text":
        return _absolute(setting, text, Path.cwd()) if setting.ui.is_path and text else text
    if setting is not None and setting.kind == "choice":
        return text
    try:
        return parse(text, source=f"--set {path}")
    except UserError as error:
        if isinstance(error.__cause__, json.JSONDecodeError):
            return text
        raise


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long, a folder that may not be looked into
        return False


def _presets_in(folder: Path, origin: Literal["built in", "yours"]) -> list[Preset]:
    found = []
    for path in folder.rglob("*.json"):
        try:
            document = read_json(path)
        except UserError:
            description = "This file cannot be read as a preset."
        else:
            description = str(document.get("description", ""))
        name = path.relative_to(folder).with_suffix("").as_posix()
        found.append(Preset(name, path, description, origin))
    return sorted(found, key=lambda preset: preset.name)
