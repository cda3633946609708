"""Search for settings by label, key, help or a synonym."""

import re
from dataclasses import dataclass, replace
from functools import cache

from onetrainer.config.base.variants import KIND
from onetrainer.config.fields import Setting, is_available
from onetrainer.config.renamed import former_paths
from ui.model.form_fields import PagePlan, groups_in, page_title, section_title, settings_on
from ui.model.variants import Variants, all_settings, entries_of

MOST_HITS = 12


@dataclass(frozen=True)
class Hit:
    """A setting that matches a search.

    Attributes:
        place: Page and group: "Training › Optimizer".
        target: Path to jump to: the setting, or the choice of a variant that has it.
        choice: Label of the matching choice: "Lion".
        only_with: Variants that have the setting, if another is chosen: "Prodigy and others".
    """

    setting: Setting
    page: str
    place: str
    target: str
    choice: str = ""
    only_with: str = ""


def find_settings(query: str, plans: tuple[PagePlan, ...], variants: Variants) -> list[Hit]:
    """Return the settings that contain every word of the query, the best first.

    Settings of variants that are not selected come last.
    """
    words = query.lower().split()
    if not words:
        return []
    scored = []
    for plan in plans:
        for hit in (*_current_hits(plan, variants), *_other_variant_hits(plan, variants)):
            score = _score(words, hit.setting, hit.place.lower())
            if score:
                hit = replace(hit, choice=_choice_of(words, hit.setting))
                is_rare = hit.setting.ui.level != "basic"
                scored.append((bool(hit.only_with), -score, is_rare, hit))
    scored.sort(key=lambda entry: entry[:3])
    return [hit for *_, hit in scored[:MOST_HITS]]


def _current_hits(plan: PagePlan, variants: Variants) -> list[Hit]:
    groups = groups_in(plan, variants)
    return [
        Hit(setting, plan.name, f"{plan.title} › {group.title}", setting.path)
        for group in groups
        for setting in group.deep_settings
    ]


def _other_variant_hits(plan: PagePlan, variants: Variants) -> list[Hit]:
    """Return the settings that only other variants have, each with a way to that choice."""
    chosen = dict(variants)
    found = []
    for setting in settings_on(plan):
        if not is_available(setting, chosen):
            section, wanted = next(pair for pair in setting.needs if chosen[pair[0]] not in pair[1])
            # The choice may be on another page.
            place = f"{page_title(f'{section}.{KIND}')} › {section_title(section, variants)}"
            names = _variant_names(section, wanted)
            found.append(Hit(setting, plan.name, place, f"{section}.{KIND}", only_with=names))
    return found


def _variant_names(section: str, variants: frozenset[str]) -> str:
    """Return the labels of variants: "Prodigy", or "Prodigy and others"."""
    path = f"{section}.{KIND}"
    choice = next(setting for setting in all_settings() if setting.path == path)
    names = [choice.choice_label(kind) for kind in choice.choices if kind in variants]
    return names[0] + (" and others" if len(names) > 1 else "")


def _score(words: list[str], setting: Setting, place: str) -> int:
    label = setting.ui.label.lower()
    choices, search = _choices(setting), _search_text(setting, setting.path)
    total = 0
    for word in words:
        if label.startswith(word):
            total += 8
        elif re.search(rf"\b{re.escape(word)}", choices):
            total += 7
        elif word in label.split() or word in search.split():
            total += 6
        elif word in label or word in setting.path:
            total += 4
        elif (
            word in search
            or word in choices
            or _without_hyphens(word) in _without_hyphens(f"{search} {choices}")
        ):
            total += 3
        elif word in setting.help.lower() or word in place or word in _entry_text(setting):
            total += 1
        else:
            return 0
    return total


@cache
def _entry_text(setting: Setting) -> str:
    """Return the labels, synonyms and choices of a list's entries."""
    parts = (
        f"{part.ui.label} {_search_text(part, f'{setting.path}.*.{part.path}')} {_choices(part)}"
        for part in entries_of(setting)
    )
    return " ".join(parts).lower()


def _search_text(setting: Setting, path: str) -> str:
    """Return other names of a setting, and its former names: whole paths and their parts."""
    former = " ".join(former_paths(path))
    return f"{setting.ui.search} {former} {former.replace('.', ' ')}".lower()


def _choices(setting: Setting) -> str:
    """Return all the values of a choice with their labels."""
    words = (setting.choice_label(choice) for choice in setting.choices)
    return " ".join((*setting.choices, *words)).lower()


def _choice_of(words: list[str], setting: Setting) -> str:
    """Return the label of the first choice that contains all words of a query; "" if none does."""
    named = [
        (setting.choice_label(choice), f"{choice} {setting.choice_label(choice)}".lower())
        for choice in setting.choices
    ]
    found = [name for name, text in named if all(word in text for word in words)]
    # "finetune" also finds "fine-tuning".
    stems = [_without_hyphens(word).removesuffix("e") for word in words]
    found += [name for name, text in named if all(stem in _without_hyphens(text) for stem in stems)]
    return next(iter(found), "")


def _without_hyphens(text: str) -> str:
    return text.replace("-", "")
