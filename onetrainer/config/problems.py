"""Pydantic's findings, turned into problems that people can read."""

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from onetrainer.config.base.variants import KIND, tags, without_tags
from onetrainer.config.fields import Setting, sections, setting_at, settings
from onetrainer.errors import Problem

_EXAMPLES: Mapping[str, str] = {"sampling.prompts": '[{"prompt": "a cat"}]'}
"""Of lists, by their settings' paths."""
_MOST_NAMED = 3
_VERY_ALIKE = 0.85  # of 1, in difflib's measure
_BROKEN = re.compile("[\x00\ud800-\udfff]")


def problems_of(error: ValidationError, root: type[BaseModel]) -> list[Problem]:
    """One problem for each finding, in the order of the file."""
    known = {setting.path: setting for setting in settings(root)}
    return [_problem(dict(item), root, known) for item in error.errors()]


def _problem(
    item: Mapping[str, Any], root: type[BaseModel], known: Mapping[str, Setting]
) -> Problem:
    path = dotted(without_tags(item["loc"], root))
    if item["type"] == "extra_forbidden":
        return _unknown_key(path, root, known)
    if item["type"] == "union_tag_invalid":
        return _unknown_kind(path, item["ctx"]["tag"], known[f"{path}.{KIND}"])
    own = settings(root, kinds=kinds_told) if (kinds_told := tags(item["loc"], root)) else ()
    setting = next((s for s in own if s.path == path), known.get(path)) or setting_at(path)
    if item["type"] == "missing":
        return Problem(path, "nothing is given", setting.expected if setting else "", "Add it.")
    what = f"{shown(item['input'])} is not allowed here"
    if (example := _example(path)) and item["type"] != "too_long":
        return Problem(path, what, f"Expected a list such as {example}", "Correct it.")
    if item["type"] == "literal_error" and setting is None:
        expected = item["ctx"]["expected"].replace("'", '"')
        return Problem(path, what, f"Expected {expected}", "Correct it.")
    if setting is None and item["type"] == "model_type":
        return Problem(path, what, "Expected settings in { }", "Correct the value.")
    if setting is None:
        expected = "a group of settings in { }" if _is_section(path, root) else item["msg"]
        return Problem(path, what, f"Expected {expected}", "Correct the value.")
    instead = "" if setting.default is None else f" to get {shown(setting.default)}"
    remedy = f"Correct it, or leave it out{instead}."
    return Problem(path, what, f"Expected {_expected(item, setting)}", remedy)


def _example(path: str) -> str:
    """A list that may stand in the place of this one, or of the one that this is an entry of."""
    owner = re.sub(r"\.\d+$", "", path)
    return _EXAMPLES.get(owner, "")


def _expected(item: Mapping[str, Any], setting: Setting) -> str:
    if item["type"] == "string_pattern_mismatch":
        return 'a name without any of / \\ : * ? " < > |'
    if item["type"] == "string_too_short":
        return "some text"
    return setting.expected


def unprintable(document: Mapping[str, Any], prefix: str = "") -> list[Problem]:
    """Text with characters that no file name and no caption can hold: NUL, half an emoji."""
    found = []
    for key, value in document.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found += unprintable(value, f"{path}.")
        elif isinstance(value, list):
            found += unprintable(
                {str(place): entry for place, entry in enumerate(value)}, f"{path}."
            )
        elif isinstance(value, str) and (_BROKEN.search(value) or _BROKEN.search(path)):
            clean = _BROKEN.sub("?", value)
            found.append(
                Problem(
                    path,
                    f"{shown(clean)} holds a character that is none",
                    "Expected text",
                    "Type it anew.",
                )
            )
    return found


def _unknown_kind(path: str, tag: str, setting: Setting) -> Problem:
    near = _nearest(tag, setting.choices)
    remedy = f'Did you mean "{near}"?' if near else "Correct it."
    what = f"{shown(tag)} is not allowed here"
    return Problem(setting.path, what, f"Expected {setting.expected}", remedy)


def _nearest(text: str, choices: Iterable[str]) -> str:
    """The choice that somebody meant; "" if none is like it. Case, "-" and "_" do not count."""
    folded = {_folded(choice): choice for choice in choices}
    wanted = _folded(text)
    if wanted in folded:
        return folded[wanted]
    longer = sorted((name for name in folded if wanted and name.startswith(wanted)), key=len)
    alike = difflib.get_close_matches(wanted, folded, n=1, cutoff=_VERY_ALIKE)
    shorter = sorted((name for name in folded if wanted.startswith(name)), key=len, reverse=True)
    near = [*longer, *alike, *shorter, *difflib.get_close_matches(wanted, folded, n=1)]
    return folded[near[0]] if near else ""


def _folded(text: str) -> str:
    return text.lower().replace("-", "").replace("_", "").replace(" ", "")


def _of_other_kind(path: str, setting: Setting) -> Problem:
    """What to say of a setting that other kinds of its section have."""
    place, kinds = setting.needs[-1]
    others = " or ".join(f'"{kind}"' for kind in sorted(kinds))
    return Problem(
        path,
        f"this kind of {place} has no such setting",
        f"It belongs to {others} ({place}.{KIND})",
        "Remove it, or choose another kind.",
    )


def _unknown_key(path: str, root: type[BaseModel], own: Mapping[str, Setting]) -> Problem:
    if path in own and own[path].needs:
        return _of_other_kind(path, own[path])
    known = [*own]
    prefix, _, leaf = path.rpartition(".")
    entry = re.match(r"(.+)\.(\d+)\.[^.]+$", path)
    if entry is not None:
        owner = next((s for s in settings(root) if s.path == entry[1]), None)
        inner = [s.path for s in settings(owner.item)] if owner and owner.item else []
        known += [f"{entry[1]}.{entry[2]}.{name}" for name in inner]
    # A right name in the wrong section, and a misspelt one in the right section.
    near = [name for name in known if name.rsplit(".", 1)[-1] == leaf]
    # What lies on top is meant more often than what lies deep inside.
    top = min((name.count(".") for name in near), default=0)
    same = [name for name in near if name.count(".") == top][:_MOST_NAMED]
    siblings = [name for name in known if name.rpartition(".")[0] == prefix]
    # Only the name itself is compared: the section before it makes everything in it alike.
    near += _alike(leaf, siblings if prefix else [*sections(root)], 0.6)
    near += _alike(leaf, known, 0.75)
    meant = same or near[:1]
    remedy = "Remove it."
    if meant:
        remedy = "Did you mean " + " or ".join(f'"{name}"' for name in meant) + "?"
    return Problem(path, "there is no such setting", "", remedy)


def _alike(leaf: str, paths: list[str], cutoff: float) -> list[str]:
    """The path whose last name is most like this one, if one is enough."""
    leaves = {path.rpartition(".")[2]: path for path in reversed(paths)}
    return [leaves[name] for name in difflib.get_close_matches(leaf, leaves, n=1, cutoff=cutoff)]


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
