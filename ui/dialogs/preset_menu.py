"""What the preset menu offers, in its order: by owner, and the built-in ones by family. No Tk."""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from onetrainer.config.run.model import FAMILY_LABELS
from onetrainer.errors import UserError
from onetrainer.json_file import read_json
from onetrainer.presets.presets import Preset

# The one to begin with in each family.
RECOMMENDED = "lora"
_ENDS = (". ", "; ", ": ")
_FAMILY = re.compile(r" (?:for|of) (?:Stable Diffusion [\d.]+|SDXL)(?!'|\.\d)")
# What is left of a family's name where something of it is told.
_SHORTER = (
    (re.compile(r"Stable Diffusion [\d.]+ base\b"), "the base model"),
    (re.compile(r"SDXL's"), "the"),
)


@dataclass(frozen=True)
class MenuGroup:
    """Presets under a title: "Your presets", "SDXL"."""

    title: str
    presets: tuple[Preset, ...]


def own_presets(found: list[Preset]) -> list[Preset]:
    """A person's own presets, by name."""
    return sorted((preset for preset in found if preset.origin == "yours"), key=_by_name)


def family_groups(found: list[Preset]) -> list[MenuGroup]:
    """The presets of each family in the order of the settings, the one to begin with first."""
    built_in = [preset for preset in found if preset.origin == "built in"]
    folders = {preset.name.partition("/")[0] for preset in built_in}
    groups = []
    for folder in sorted(folders, key=_family_order):
        of_it = [p for p in built_in if p.name.partition("/")[0] == folder]
        of_it.sort(key=lambda preset: (short_name(preset) != RECOMMENDED, *_by_name(preset)))
        groups.append(MenuGroup(FAMILY_LABELS.get(folder, folder), tuple(of_it)))
    return groups


def other_demos(folder: Path) -> list[Preset]:
    """The demo's other configs, as far as they are there and can be read."""
    found = []
    for path in folder.glob("demo-*.json"):
        with suppress(UserError):
            description = str(read_json(path).get("description", ""))
            found.append(Preset(path.stem, path, description, "built in"))
    return sorted(found, key=_by_name)


def menu_line(preset: Preset) -> tuple[str, str]:
    """A preset's line in the menu: the words that say most, and what stands at its end."""
    if preset.origin == "yours":
        return preset.name, ""
    name = short_name(preset)
    return summary(without_family(preset.description)) or name, name


def short_name(preset: Preset) -> str:
    """A preset's name below its family: "lora-12gb"."""
    return preset.name.partition("/")[2] or preset.name


def without_family(description: str) -> str:
    """A description as it stands under its family's name: "LoRA at 512 px. …"."""
    for pattern, replacement in _SHORTER:
        description = pattern.sub(replacement, description)
    return _FAMILY.sub("", description, count=1)


def summary(description: str) -> str:
    """The first part of a description: "LoRA for SDXL at 1024 px"."""
    ends = [place for place in (description.find(end) for end in _ENDS) if place > 0]
    return description[: min(ends)] if ends else description.rstrip(".")


def _by_name(preset: Preset) -> tuple[tuple[str, int], ...]:
    """Its name with the numbers in it as numbers: 8gb before 12gb."""
    parts = re.findall(r"(\D*)(\d*)", preset.name.casefold())
    return tuple((text, int(digits or 0)) for text, digits in parts)


def _family_order(folder: str) -> tuple[int, str]:
    known = list(FAMILY_LABELS)
    return (known.index(folder) if folder in known else len(known), folder)
