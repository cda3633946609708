"""Config files and presets: load, merge, validate and save them."""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from onetrainer.config.base.variants import (
    KIND,
    chosen_section,
    selected_variants,
    with_default_variants,
)
from onetrainer.config.complete import completed
from onetrainer.config.fields import Setting, setting_at, settings
from onetrainer.config.migrate import interval_with_unit, migrate
from onetrainer.config.problems import format_value, problems_of, unprintable
from onetrainer.config.renamed import current_path
from onetrainer.config.train import VERSION, TrainConfig
from onetrainer.errors import ProblemsError, UserError
from onetrainer.files.atomic import write_atomic
from onetrainer.json_file import (
    BACKSLASHES,
    DOUBLE_THEM,
    MAX_DEPTH,
    Document,
    parse,
    read_json,
)
from onetrainer.model_files.hub import is_hub_name
from onetrainer.presets.find import ABOUT, expanded, is_file, locate, read_config
from onetrainer.redaction import without_tokens_inside
from onetrainer.run.run_folder import cannot_write

_MAPPINGS = dict, Mapping  # a dict is told at once, and the window asks thousands of times a page
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_CONTROL = re.compile(r"[\b\f\n\r\t]")
_MAX_PATH = 1000  # characters of a setting's path


def load(
    name_or_path: str,
    overrides: Iterable[str] = (),
    *,
    may_be_run: bool = False,
    wanted: str = "a config file or a preset",
) -> Document:
    """Return the settings of what `locate` finds, with `key.path=value` overrides applied."""
    path = locate(name_or_path, may_be_run=may_be_run, wanted=wanted)
    return with_overrides(load_document(path), overrides)


def load_document(path: Path, *, parents: tuple[Path, ...] = (), goes_on: bool = False) -> Document:
    """Return a config file's settings, migrated, merged with the preset it extends, paths absolute.

    parents: The files that extend this one. goes_on: see `migrate`. Raises UserError: the file
    cannot be read as a config.
    """
    document = migrate(read_config(path), source=str(path), goes_on=goes_on)
    _require_paths(document, source=str(path))
    base = document.get("extends")
    document = _with_paths(document, partial(_absolute, folder=path.absolute().parent))
    if base is None:
        return document
    if path.resolve() in parents:
        raise UserError(f"{path}: extends itself through {base}", "", 'Remove one "extends".')
    if not isinstance(base, str):
        raise UserError(
            f'{path}: "extends" is {format_value(base)}', "Expected a preset's name", ""
        )
    sibling = path.parent / base
    parent = sibling if is_file(sibling) else locate(base)
    return _merge(load_document(parent, parents=(*parents, path.resolve())), document)


def _require_paths(document: Document, *, source: str) -> None:
    r"""Raise UserError for a path in which JSON has read single backslashes as control characters.

    That are those before b, f, n, r and t, as in "C:\new": other ones are no JSON.
    """

    def require(setting: Setting, value: str) -> str:
        if _CONTROL.search(value) and not is_file(Path(value)) and not Path(value).is_dir():
            written = json.dumps(value, ensure_ascii=False)[1:-1]
            raise UserError(
                f'{source}: {setting.path}: single backslashes in "{written}" were read as'
                " control characters",
                BACKSLASHES,
                DOUBLE_THEM,
            )
        return value

    _with_paths(document, require)


def resolve(document: Mapping[str, Any], *, source: str) -> TrainConfig:
    """Return the config of a document over the defaults. Raises ProblemsError with all problems."""
    if invalid := unprintable(document):
        raise ProblemsError(invalid, source)
    try:
        # Strict JSON rules: 3 is not text, true is not a number; lists become tuples.
        values = {key: value for key, value in document.items() if key not in ABOUT}
        text = json.dumps(with_default_variants(values, TrainConfig))
        return TrainConfig.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise ProblemsError(problems_of(error, TrainConfig), source) from error


def with_overrides(document: Document, overrides: Iterable[str]) -> Document:
    """Return the document with `key.path=value` overrides applied; values are JSON, else text.

    Former names of settings are accepted. Variants are applied first, since another variant resets
    its section: the order of the overrides does not matter.

    Raises UserError: an override does not have that form.
    """
    values = []
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
                f"--set {text}: this is a property of the file, not a setting",
                "Expected key.path=value, such as training.steps=500",
                "Change it in the file.",
            )
        if path.count(".") >= MAX_DEPTH or len(path) > _MAX_PATH:
            raise UserError(
                f"--set {path[:60]}…: there is no such setting",
                "Expected key.path=value, such as training.steps=500",
                "Correct it.",
            )
        path = current_path(path.strip())
        values.append((path, _parsed_value(path, value)))
    for path, value in sorted(values, key=lambda pair: _rank(pair[0])):
        setting = setting_at(path)
        if setting is not None and path.endswith(f".{KIND}") and value in setting.choices:
            document = with_variant(document, path.removesuffix(f".{KIND}"), value)
        else:
            document = with_value(document, path, value)
    return interval_with_unit(document)  # for overrides of a setting that is part of it now


def with_value(document: Mapping[str, Any], path: str, value: Any) -> Document:
    """Return the document with one setting changed; numbers in the path are list indexes."""
    key, _, rest = path.partition(".")
    if not rest:
        return {**document, key: value}
    inner = document.get(key)
    if isinstance(inner, list | None) and rest.partition(".")[0].isdecimal():
        return {**document, key: _with_item(inner or [], rest, value)}
    return {**document, key: with_value(inner if isinstance(inner, dict) else {}, rest, value)}


def without_settings(document: Mapping[str, Any], paths: Iterable[str]) -> Document:
    """Return the document without some settings; an invalid list entry removes the whole list."""
    lists = {setting.path for setting in settings(TrainConfig) if setting.kind == "list"}
    left = dict(document)
    for path in paths:
        owner = next((name for name in lists if path.startswith(f"{name}.")), path)
        section, _, key = owner.rpartition(".")
        inner = value_at(left, section) if section else left
        if isinstance(inner, dict):
            others = {name: value for name, value in inner.items() if name != key}
            left = with_value(left, section, others) if section else others
    return left


def with_absolute_paths(config: TrainConfig) -> TrainConfig:
    """Return the config with all paths absolute, relative ones taken from the current folder.

    A loaded file's paths are absolute already, relative to the file's own folder.
    """
    return with_paths(config, partial(_absolute, folder=Path.cwd()))


def with_paths(config: TrainConfig, change: Callable[[Setting, str], str]) -> TrainConfig:
    """Return the config with a function applied to every path in it."""
    return resolve(_with_paths(config.model_dump(mode="json"), change), source="")


def as_preset(config: TrainConfig, *, description: str = "", notes: str = "") -> Document:
    """Return a document of the settings that differ from the defaults; without tokens."""
    about = {"description": description, "notes": notes}
    document: Document = {"version": VERSION} | {key: text for key, text in about.items() if text}
    whole = config.model_dump(mode="json")
    selected = selected_variants(whole, TrainConfig)
    plain = defaults(selected)
    for setting in settings(TrainConfig, selected=selected):
        value = value_at(whole, setting.path)
        section = setting.path.rpartition(".")[0]
        is_other_variant = setting.path.endswith(f".{KIND}") and value != setting.default
        if is_other_variant or value != value_at(plain, setting.path):
            # A setting's meaning depends on its variant, so that is included.
            if section in selected:
                document = with_value(document, f"{section}.{KIND}", selected[section])
            document = with_value(document, setting.path, value)
    return cast(Document, without_tokens_inside(document))


def defaults(selected: Mapping[str, str]) -> Document:
    """Return the defaults of all settings for some variants (see `selected_variants`)."""
    document: Document = {}
    for path, name in selected.items():
        if chosen_section(path, selected, TrainConfig) is not None:
            document = with_value(document, f"{path}.{KIND}", name)
    return completed(document)


def with_variant(document: Mapping[str, Any], path: str, name: str) -> Document:
    """Return the document with another variant of the section at a path, such as "optimizer".

    Changed settings are kept if the new variant has a setting of that name; all others get the new
    variant's defaults.
    """
    old = defaults(selected_variants(document, TrainConfig))
    bare = with_value(document, path, {KIND: name})
    selected = selected_variants(bare, TrainConfig)
    changed = with_value(bare, path, value_at(defaults(selected), path))
    for setting in settings(TrainConfig, selected=selected):
        value = value_at(document, setting.path)
        is_inside = setting.path.startswith(f"{path}.") and setting.path != f"{path}.{KIND}"
        is_set = value is not None and value != value_at(old, setting.path)
        if is_inside and is_set and (setting.kind != "choice" or value in setting.choices):
            changed = with_value(changed, setting.path, compatible_value(setting, value))
    return changed


def compatible_value(setting: Setting, value: Any) -> Any:
    """Return a value from another variant; list entries keep only the fields known here."""
    if setting.item is None or not isinstance(value, list):
        return value
    known = setting.item.model_fields
    return [
        {key: part for key, part in entry.items() if key in known}
        if isinstance(entry, dict)
        else entry
        for entry in value
    ]


def save_preset(config: TrainConfig, path: Path, *, description: str = "", notes: str = "") -> None:
    """Write a preset file atomically. Raises UserError if it cannot be written."""
    save_document(path, as_preset(config, description=description, notes=notes))


def save_document(path: Path, document: Document) -> None:
    """Write a config file atomically. Raises UserError if it cannot be written."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, (text + "\n").encode())
    except OSError as error:
        raise cannot_write(path, error) from error


def change_config(path: Path, changes: Mapping[str, Any]) -> None:
    """Change settings of a run's config file, by path; it stays whole.

    Raises UserError: The config is not valid then, or cannot be written.
    """
    document = migrate(read_json(path), source=str(path), goes_on=True)
    for setting, value in changes.items():
        document = with_value(document, setting, value)
    config = resolve(document, source=str(path))
    try:
        write_atomic(path, (config.model_dump_json(indent=2) + "\n").encode())
    except OSError as error:
        raise cannot_write(path, error) from error


def value_at(document: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path, numbers being list indexes; None if it is missing."""
    value: Any = document
    for key in path.split("."):
        if isinstance(value, _MAPPINGS):
            value = value.get(key)
        elif isinstance(value, list | tuple):
            is_index = _INDEX.fullmatch(key) and int(key) < len(value)
            value = value[int(key)] if is_index else None
        else:
            return None
    return value


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
            item = setting.item
            entries = [
                _with_paths(entry, change, item) if isinstance(entry, dict) else entry
                for entry in value
            ]
            document = with_value(document, setting.path, entries)
    return document


def _absolute(setting: Setting, value: str, folder: Path) -> str:
    """Return the value as an absolute path; a name on the Hub is returned unchanged."""
    if setting.ui.editor == "model" and is_hub_name(value, folder):
        return value
    if setting.ui.editor == "function":
        # Imported late to keep the start of the window fast.
        from onetrainer.trust.function_file import absolute_spec

        return absolute_spec(value, folder)
    return os.path.normpath(folder / expanded(value))


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Document:
    merged = dict(base)
    for key, value in over.items():
        inner = merged.get(key)
        merged[key] = value
        # Another variant starts from its own defaults, not from the old one's values.
        if isinstance(inner, dict) and isinstance(value, dict):
            kind = inner.get("kind")
            if value.get("kind", kind) == kind:
                merged[key] = _merge(inner, value)
    return merged


def _rank(path: str) -> tuple[bool, int]:
    """Return the sort key of an override: variants first, outer sections before inner ones."""
    is_variant = path.endswith(f".{KIND}") and setting_at(path) is not None
    return not is_variant, path.count(".") if is_variant else 0


def _with_item(items: list[Any], rest: str, value: Any) -> list[Any]:
    number, _, inner = rest.partition(".")
    changed = list(items)
    index = int(number)
    if index > len(items):
        raise UserError(
            f"--set …{rest}: the list has {len(items)} entries, so there is no entry {index}",
            f"Expected an index of at most {len(items)}, counted from 0",
            "Set the entries before it too.",
        )
    old = items[index] if index < len(items) else {}
    new = with_value(old if isinstance(old, dict) else {}, inner, value) if inner else value
    changed[index : index + 1] = [new]
    return changed


def _parsed_value(path: str, text: str) -> Any:
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
