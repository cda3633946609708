"""Finding a setting by its label, key, help or a word people use for it. No Tk."""

from dataclasses import dataclass

from onetrainer.config.fields import Setting
from ui.forms.fields import PagePlan

MOST_HITS = 12


@dataclass(frozen=True)
class Hit:
    """A setting that was found. place: "Training › Optimizer"."""

    setting: Setting
    page: str
    place: str


def find_settings(query: str, plans: tuple[PagePlan, ...]) -> list[Hit]:
    """The settings in which every word of the query occurs, the best first."""
    words = query.lower().split()
    if not words:
        return []
    scored = []
    for plan in plans:
        for group in plan.groups:
            for setting in group.settings:
                score = _score(words, setting, f"{plan.title} {group.title}".lower())
                if score:
                    hit = Hit(setting, plan.name, f"{plan.title} › {group.title}")
                    scored.append((score, hit))
    scored.sort(key=lambda pair: -pair[0])
    return [hit for _, hit in scored[:MOST_HITS]]


def _score(words: list[str], setting: Setting, place: str) -> int:
    label = setting.ui.label.lower()
    total = 0
    for word in words:
        if label.startswith(word):
            total += 8
        elif word in label.split() or word in setting.ui.search.lower().split():
            total += 6
        elif word in label or word in setting.path:
            total += 4
        elif word in setting.ui.search.lower() or word in _choices(setting):
            total += 3
        elif word in setting.help.lower() or word in place:
            total += 1
        else:
            return 0
    return total


def _choices(setting: Setting) -> str:
    """All the values of a choice, and the words for them."""
    words = (setting.word(choice) for choice in setting.choices)
    return " ".join((*setting.choices, *words)).lower()
