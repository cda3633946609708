"""Settings that are visible now."""

from typing import NamedTuple

from onetrainer.config.fields import Setting
from onetrainer.presets.presets import value_at
from ui.model.draft import Draft
from ui.model.form_fields import edit_text

# In a setting's `only_with`: every value except 0, off and empty.
ANY = ("*",)


class Visibility(NamedTuple):
    """Which settings to show: all advanced ones, and single ones."""

    with_advanced: bool
    revealed: set[str]


def sibling_path(path: str, other: str) -> str:
    """Return the path that an `only_with` of a setting refers to.

    A name without a dot is a setting of the same section or list entry: "sampling.prompts.1.seed"
    for "seed" next to "sampling.prompts.1.prompt".
    """
    return other if "." in other else f"{path.rpartition('.')[0]}.{other}"


def switch_path(setting: Setting, path: str) -> str:
    """Return the path of the switch that enables a section within a list entry.

    "data.concepts.1.own_captions" for "data.concepts.1.captions.shuffle"; "" for settings that
    are not in a section of an entry.
    """
    section, dot, _ = setting.path.partition(".")
    is_of_entry = path != setting.path
    return f"{path.removesuffix(setting.path)}own_{section}" if dot and is_of_entry else ""


def has_effect(draft: Draft, setting: Setting, path: str) -> bool:
    """Return whether a setting has an effect with the current values of other settings."""
    switch = switch_path(setting, path)
    if switch and draft.value(switch) is False:
        return False
    found = (
        (draft.value(sibling_path(path, o)), wanted) for o, wanted in setting.ui.only_with.items()
    )
    if all(_is_one_of(value, wanted) for value, wanted in found):
        return True
    others = setting.ui.or_with.items()
    return any(_is_one_of(v, wanted) for o, wanted in others for v in _values(draft, o))


def _is_one_of(value: object, wanted: tuple[str, ...]) -> bool:
    return bool(value) if wanted == ANY else edit_text(value) in wanted


def _values(draft: Draft, path: str) -> list[object]:
    """Return the values at a path; a "*" stands for every entry in use."""
    name, star, inner = path.partition(".*.")
    if not star:
        return [draft.value(path)]
    entries = draft.value(name)
    items = entries if isinstance(entries, list | tuple) else ()
    in_use = [e for e in items if isinstance(e, dict) and e.get("use") is not False]
    return [value_at(entry, inner) for entry in in_use]


def is_visible(draft: Draft, setting: Setting, path: str, visibility: Visibility) -> bool:
    """Return whether a setting is shown. path: may be inside a list entry."""
    if path in visibility.revealed or draft.problem(path) is not None:
        return True
    if not has_effect(draft, setting, path):
        return False
    if visibility.with_advanced or setting.ui.level == "basic":
        return True
    is_of_entry = path != setting.path
    is_default = draft.value(path) == setting.default if is_of_entry else draft.is_default(path)
    return not is_default
