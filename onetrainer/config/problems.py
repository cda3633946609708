"""Conversion of pydantic's validation errors to problems that people can read."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from onetrainer.config.base.variants import KIND, variant_tags, without_variant_tags
from onetrainer.config.fields import Setting, sections, setting_at, settings
from onetrainer.config.renamed import current_path
from onetrainer.errors import CORRECT, LEAVE_OUT, Problem
from onetrainer.redaction import without_tokens

_EXAMPLES: Mapping[str, str] = {"sampling.prompts": '[{"prompt": "a cat"}]'}
"""Example lists by their settings' paths."""
_MAX_SUGGESTIONS = 3
_MAX_PROBLEMS = 100  # each is compared with every setting, to suggest the one that was meant
_VERY_SIMILAR = 0.85  # difflib ratio, of 1
_INVALID_KEY = "[key]"  # that pydantic adds to the location
_INVALID = re.compile("[\x00\ud800-\udfff]")


def problems_of(error: ValidationError, root: type[BaseModel]) -> list[Problem]:
    """Return one problem for each of the first validation errors, in the order of the file."""
    known = {setting.path: setting for setting in settings(root)}
    errors = error.errors()
    problems = [_problem(dict(item), root, known) for item in errors[:_MAX_PROBLEMS]]
    if len(errors) > _MAX_PROBLEMS:
        more = f"{len(errors) - _MAX_PROBLEMS} more problems like these"
        problems.append(Problem("", more, "", "Correct these first."))
    return problems


def _problem(
    item: Mapping[str, Any], root: type[BaseModel], known: Mapping[str, Setting]
) -> Problem:
    place = [part for part in item["loc"] if part != _INVALID_KEY]
    path = dotted_path(without_variant_tags(tuple(place), root))
    if item["type"] == "extra_forbidden":
        return _unknown_key(path, root, known)
    if item["type"] == "union_tag_invalid":
        return _unknown_variant(path, item["ctx"]["tag"], known[f"{path}.{KIND}"])
    tags = variant_tags(item["loc"], root)
    of_variant = settings(root, selected=tags) if tags else ()
    setting = next((s for s in of_variant if s.path == path), known.get(path)) or setting_at(path)
    if item["type"] == "missing":
        return Problem(path, "the value is missing", setting.expected if setting else "", "Add it.")
    what = f"{format_value(item['input'])} is not allowed here"
    # The example of a list also serves for its entries.
    example = _EXAMPLES.get(re.sub(r"\.\d+$", "", path))
    if example and item["type"] != "too_long":
        return Problem(path, what, f"Expected a list such as {example}", CORRECT)
    if item["type"] == "literal_error" and setting is None:
        expected = item["ctx"]["expected"].replace("'", '"')
        return Problem(path, what, f"Expected {expected}", CORRECT)
    if setting is None and item["type"] in ("model_type", "dict_type"):
        return Problem(path, what, "Expected settings in { }", CORRECT)
    if setting is None:
        expected = "a group of settings in { }" if path in ("", *sections(root)) else item["msg"]
        return Problem(path, what, f"Expected {expected}", CORRECT)
    instead = "" if setting.default is None else f" to get {format_value(setting.default)}"
    remedy = f"{LEAVE_OUT}{instead}."
    return Problem(path, what, f"Expected {_expected(item, setting)}", remedy)


def _expected(item: Mapping[str, Any], setting: Setting) -> str:
    if item["type"] == "string_pattern_mismatch":
        return 'a name without any of / \\ : * ? " < > |'
    if item["type"] == "string_too_short":
        return "some text"
    if item["type"] == "value_error":
        return str(item["ctx"]["error"])
    is_list = isinstance(item["input"], list) or "," in str(item["input"])
    if setting.kind == "choice" and is_list:
        return f"a single value and no list: {setting.expected}"
    return setting.expected


def unprintable(document: Mapping[str, Any], prefix: str = "") -> list[Problem]:
    """Return a problem for each text with invalid characters: NUL, unpaired surrogates."""
    found = []
    for key, value in document.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found += unprintable(value, f"{path}.")
        elif isinstance(value, list):
            found += unprintable(
                {str(index): entry for index, entry in enumerate(value)}, f"{path}."
            )
        elif isinstance(value, str) and (_INVALID.search(value) or _INVALID.search(path)):
            clean = _INVALID.sub("?", value)
            found.append(
                Problem(
                    path,
                    f"{format_value(clean)} contains an invalid character",
                    "Expected text",
                    "Type it again.",
                )
            )
    return found


def _unknown_variant(path: str, tag: str, setting: Setting) -> Problem:
    near = _nearest(tag, setting.choices)
    remedy = f'Did you mean "{near}"?' if near else CORRECT
    what = f"{format_value(tag)} is not allowed here"
    return Problem(setting.path, what, f"Expected {setting.expected}", remedy)


def _nearest(text: str, choices: Iterable[str]) -> str:
    """Return the most similar choice, ignoring case, "-" and "_"; "" if none is similar."""
    import difflib  # late, since few need it

    folded = {_folded(choice): choice for choice in choices}
    wanted = _folded(text)
    if wanted in folded:
        return folded[wanted]
    longer = sorted((name for name in folded if wanted and name.startswith(wanted)), key=len)
    similar = difflib.get_close_matches(wanted, folded, n=1, cutoff=_VERY_SIMILAR)
    shorter = sorted((name for name in folded if wanted.startswith(name)), key=len, reverse=True)
    near = [*longer, *similar, *shorter, *difflib.get_close_matches(wanted, folded, n=1)]
    return folded[near[0]] if near else ""


def _folded(text: str) -> str:
    return text.lower().replace("-", "").replace("_", "").replace(" ", "")


def _of_other_variant(path: str, setting: Setting) -> Problem:
    """Return the problem of a setting that belongs to other variants of its section."""
    section, names = setting.needs[-1]
    others = " or ".join(f'"{name}"' for name in sorted(names))
    return Problem(
        path,
        f"the selected {section} has no such setting",
        f"It belongs to {others} ({section}.{KIND})",
        f"Remove it, or change {section}.{KIND}.",
    )


def _unknown_key(path: str, root: type[BaseModel], own: Mapping[str, Setting]) -> Problem:
    if path in own and own[path].needs:
        return _of_other_variant(path, own[path])
    if (current := current_path(path)) != path:
        return Problem(path, "there is no such setting", "", f'It is now called "{current}".')
    known = [*own]
    prefix, _, leaf = path.rpartition(".")
    entry = re.match(r"(.+)\.(\d+)\.[^.]+$", path)
    if entry is not None:
        owner = next((s for s in settings(root) if s.path == entry[1]), None)
        inner = [s.path for s in settings(owner.item)] if owner and owner.item else []
        known += [f"{entry[1]}.{entry[2]}.{name}" for name in inner]
    # A correct name in the wrong section, or a misspelled one in the right section.
    near = [name for name in known if name.rsplit(".", 1)[-1] == leaf]
    # Top-level settings are meant more often than nested ones.
    top = min((name.count(".") for name in near), default=0)
    same = [name for name in near if name.count(".") == top][:_MAX_SUGGESTIONS]
    siblings = [name for name in known if name.rpartition(".")[0] == prefix]
    # Only the last name is compared: the section before it makes everything in it similar.
    near += _similar(leaf, siblings if prefix else [*sections(root)], 0.6)
    near += _similar(leaf, known, 0.75)
    names = " or ".join(f'"{name}"' for name in same or near[:1])
    remedy = f"Did you mean {names}?" if names else "Remove it."
    return Problem(path, "there is no such setting", "", remedy)


def _similar(leaf: str, paths: list[str], cutoff: float) -> list[str]:
    """Return the path whose last name is most similar, if it is similar enough."""
    import difflib

    leaves = {path.rpartition(".")[2]: path for path in reversed(paths)}
    return [leaves[name] for name in difflib.get_close_matches(leaf, leaves, n=1, cutoff=cutoff)]


def dotted_path(location: tuple[str | int, ...]) -> str:
    """Return a location as a path: "optimizer.lr" for ("optimizer", "lr")."""
    return ".".join(map(str, location))


def format_value(value: Any) -> str:
    """Return a value as it is written in a file, shortened to a readable length."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    text = without_tokens(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= 60 else text[:57] + "..."
