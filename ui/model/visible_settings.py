"""Which settings are to be seen now. No Tk."""

from dataclasses import dataclass

from onetrainer.config.fields import Setting
from ui.model.draft import Draft
from ui.model.form_fields import edit_text
from ui.model.variants import value_in

# In a setting's `only_with`: every value but 0, off and nothing.
ANY = ("*",)


@dataclass(frozen=True)
class Visibility:
    """What a person wants to see: advanced settings, and single ones."""

    with_advanced: bool
    revealed: set[str]


def sibling_path(path: str, other: str) -> str:
    """The path of what the `only_with` of a setting at a path names.

    A name without a dot is that of a setting of the same section, also within an entry of a list:
    "sampling.prompts.1.seed" for "seed", where the path is "sampling.prompts.1.prompt".
    """
    return other if "." in other else f"{path.rpartition('.')[0]}.{other}"


def switch_path(setting: Setting, path: str) -> str:
    """The path of what turns the section within an entry on that a setting, at a path, is of.

    "data.concepts.1.own_captions" for "data.concepts.1.captions.shuffle"; "" for all that is not
    of a section within an entry.
    """
    section, dot, _ = setting.path.partition(".")
    is_of_entry = path != setting.path
    return f"{path.removesuffix(setting.path)}own_{section}" if dot and is_of_entry else ""


def has_effect(draft: Draft, setting: Setting, path: str) -> bool:
    """Whether a setting, at a path, does anything with what is chosen elsewhere."""
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
    """The value at a path, or those of the entries in use where a "*" stands for any."""
    name, star, inner = path.partition(".*.")
    if not star:
        return [draft.value(path)]
    entries = draft.value(name)
    there = entries if isinstance(entries, list | tuple) else ()
    in_use = [e for e in there if isinstance(e, dict) and e.get("use") is not False]
    return [value_in(entry, inner) for entry in in_use]


def is_visible(draft: Draft, setting: Setting, path: str, seen: Visibility) -> bool:
    """Whether a setting, at a path, is to be shown: it may be one of an entry of a list."""
    if path in seen.revealed or draft.problem(path) is not None:
        return True
    if not has_effect(draft, setting, path):
        return False
    if seen.with_advanced or setting.ui.level == "basic":
        return True
    is_of_entry = path != setting.path
    is_default = draft.value(path) == setting.default if is_of_entry else draft.is_default(path)
    return not is_default
