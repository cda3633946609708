"""What the preset menu offers, in its order: by owner, and the built-in ones by family. No Tk."""

from dataclasses import dataclass

from onetrainer.config.model import FAMILY_WORDS
from onetrainer.presets import Preset

_ENDS = (". ", "; ", ": ")


@dataclass(frozen=True)
class MenuGroup:
    """Presets under a title: "Your presets", "SDXL"."""

    title: str
    presets: tuple[Preset, ...]


def menu_groups(found: list[Preset]) -> list[MenuGroup]:
    """A person's own presets, then those of each family in the order of the settings."""
    own = tuple(preset for preset in found if preset.origin == "yours")
    groups = [MenuGroup("Your presets", own)] if own else []
    built_in = [preset for preset in found if preset.origin == "built in"]
    folders = {preset.name.partition("/")[0] for preset in built_in}
    for folder in sorted(folders, key=_place):
        of_it = tuple(p for p in built_in if p.name.partition("/")[0] == folder)
        groups.append(MenuGroup(FAMILY_WORDS.get(folder, folder), of_it))
    return groups


def line_of(preset: Preset) -> tuple[str, str]:
    """A preset's line in the menu: the words that say most, and what stands at its end."""
    if preset.origin == "yours":
        return preset.name, ""
    return summary(preset.description) or preset.name, preset.name


def summary(description: str) -> str:
    """The first part of a description: "LoRA for SDXL at 1024 px"."""
    ends = [place for place in (description.find(end) for end in _ENDS) if place > 0]
    return description[: min(ends)] if ends else description.rstrip(".")


def _place(folder: str) -> tuple[int, str]:
    known = list(FAMILY_WORDS)
    return (known.index(folder) if folder in known else len(known), folder)
