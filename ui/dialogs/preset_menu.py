"""Contents and order of the preset menu: the user's presets, and the built-in ones by family."""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.families.registry import FAMILIES, FAMILY_LABELS
from onetrainer.json_file import read_json
from onetrainer.presets.find import Preset

# Listed first in each family.
RECOMMENDED = "lora"
_ENDS = (". ", "; ", ": ")
_TITLES = "|".join(dict.fromkeys(re.escape(spec.title or spec.label) for spec in FAMILIES))
_FAMILY = re.compile(rf" (?:for|of) (?:{_TITLES})(?!'|\.\d)")
# Replacements of a family's name where something specific follows it.
_SHORTER = (
    (re.compile(rf"(?:{_TITLES}) base\b"), "the base model"),
    (re.compile(rf"(?:{_TITLES})'s"), "the"),
)


@dataclass(frozen=True)
class MenuGroup:
    """Presets under a title, such as "SD 1.5"."""

    title: str
    presets: tuple[Preset, ...]


def own_presets(found: list[Preset]) -> list[Preset]:
    """Return the user's presets by name."""
    return sorted((preset for preset in found if preset.origin == "yours"), key=_by_name)


def family_groups(found: list[Preset]) -> list[MenuGroup]:
    """Return the built-in presets by family; the recommended one of each family is first."""
    built_in = [preset for preset in found if preset.origin == "built in"]
    folders = {preset.name.partition("/")[0] for preset in built_in}
    groups = []
    for folder in sorted(folders, key=_family_order):
        of_it = [p for p in built_in if p.name.partition("/")[0] == folder]
        of_it.sort(key=lambda preset: (short_name(preset) != RECOMMENDED, *_by_name(preset)))
        groups.append(MenuGroup(FAMILY_LABELS.get(folder, folder), tuple(of_it)))
    return groups


def other_demos(folder: Path) -> list[Preset]:
    """Return the demo's other configs that can be read."""
    found = []
    for path in folder.glob("demo-*.json"):
        with suppress(UserError):
            description = str(read_json(path).get("description", ""))
            found.append(Preset(path.stem, path, description, "built in"))
    return sorted(found, key=_by_name)


def menu_line(preset: Preset) -> tuple[str, str]:
    """Return the label of a preset in the menu, and the text at the end of its line."""
    if preset.origin == "yours":
        return preset.name, ""
    name = short_name(preset)
    return summary(without_family(preset.description)) or name, name


def short_name(preset: Preset) -> str:
    """Return a preset's name without its family: "lora-12gb"."""
    return preset.name.partition("/")[2] or preset.name


def without_family(description: str) -> str:
    """Return a description without the name of the family: "LoRA at 512 px. …"."""
    for pattern, replacement in _SHORTER:
        description = pattern.sub(replacement, description)
    return _FAMILY.sub("", description, count=1)


def summary(description: str) -> str:
    """Return the first part of a description: "LoRA for SD 1.5 at 512 px"."""
    ends = [place for place in (description.find(end) for end in _ENDS) if place > 0]
    return description[: min(ends)] if ends else description.rstrip(".")


def _by_name(preset: Preset) -> tuple[tuple[str, int], ...]:
    """Return a sort key with numeric parts as numbers: 8gb before 12gb."""
    parts = re.findall(r"(\D*)(\d*)", preset.name.casefold())
    return tuple((text, int(digits or 0)) for text, digits in parts)


def _family_order(folder: str) -> tuple[int, str]:
    known = list(FAMILY_LABELS)
    return (known.index(folder) if folder in known else len(known), folder)
