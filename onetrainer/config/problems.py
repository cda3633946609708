"""Pydantic's findings, turned into problems that people can read."""

import difflib
import json
import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from onetrainer.config.fields import Setting, sections, settings
from onetrainer.errors import Problem


def problems_of(error: ValidationError, root: type[BaseModel]) -> list[Problem]:
    """One problem for each finding, in the order of the file."""
    known = {setting.path: setting for setting in settings(root)}
    return [_problem(dict(item), root, known) for item in error.errors()]


def _problem(
    item: Mapping[str, Any], root: type[BaseModel], known: Mapping[str, Setting]
) -> Problem:
    path = dotted(item["loc"])
    if item["type"] == "extra_forbidden":
        return _unknown_key(path, root)
    setting = known.get(path) or _list_setting(item["loc"], root)
    if item["type"] == "missing":
        return Problem(path, "nothing is given", setting.expected if setting else "", "Add it.")
    what = f"{shown(item['input'])} is not allowed here"
    if item["type"] == "literal_error" and setting is None:
        expected = item["ctx"]["expected"].replace("'", '"')
        return Problem(path, what, f"Expected {expected}", "Correct it.")
    if setting is None:
        expected = "a group of settings in { }" if _is_section(path, root) else item["msg"]
        return Problem(path, what, f"Expected {expected}", "Correct the value.")
    remedy = f"Correct it, or leave it out to get {shown(setting.default)}."
    return Problem(path, what, f"Expected {_expected(item, setting)}", remedy)


def _expected(item: Mapping[str, Any], setting: Setting) -> str:
    if item["type"] == "string_pattern_mismatch":
        return 'a name without any of / \\ : * ? " < > |'
    if item["type"] == "string_too_short":
        return "some text"
    return setting.expected


def _unknown_key(path: str, root: type[BaseModel]) -> Problem:
    known = [setting.path for setting in settings(root)]
    prefix, _, leaf = path.rpartition(".")
    # A right name in the wrong section, and a misspelt one in the right section.
    near = [name for name in known if name.rsplit(".", 1)[-1] == leaf]
    siblings = [name for name in known if name.rpartition(".")[0] == prefix]
    near += difflib.get_close_matches(path, siblings if prefix else [*sections(root)], n=1)
    near += difflib.get_close_matches(path, known, n=1, cutoff=0.75)
    remedy = f'Did you mean "{near[0]}"?' if near else "Remove it."
    return Problem(path, "there is no such setting", "", remedy)


def _list_setting(location: tuple[str | int, ...], root: type[BaseModel]) -> Setting | None:
    """The setting inside an entry of a list: sampling.prompts.0.seed."""
    for place, part in enumerate(location):
        if isinstance(part, int):
            path = dotted(location[:place])
            lists = [setting for setting in settings(root) if setting.path == path]
            if not lists or lists[0].item is None:
                return None
            rest = dotted(location[place + 1 :])
            return next((inner for inner in settings(lists[0].item) if inner.path == rest), None)
    return None


def _is_section(path: str, root: type[BaseModel]) -> bool:
    return path == "" or path in sections(root)


def dotted(location: tuple[str | int, ...]) -> str:
    """("optimizer", "lr") as "optimizer.lr"."""
    return ".".join(str(part) for part in location)


def shown(value: Any) -> str:
    """A value as it stands in the file, cut to a readable length."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
