"""Pages, groups and rows of the settings; values as text and text as values."""

import re
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from onetrainer.config.base.encoders import FAMILY, encoder_label, encoders_by_key
from onetrainer.config.base.numbers import number_text
from onetrainer.config.base.section import without_source
from onetrainer.config.base.variants import KIND
from onetrainer.config.fields import Setting, sections
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import TrainConfig
from ui.model.variants import (
    Variants,
    all_settings,
    entries_of,
    section_at,
    section_of,
    settings_by_path,
    settings_in,
)

_NUMBER = re.compile(r"^[+-]?(\d[\d_]*)?\.?(\d[\d_]*)?(e[+-]?\d+)?$", re.IGNORECASE)
_FRACTION = re.compile(r"^\s*(\d+)\s*/\s*(\d+)\s*$")
_EXACT_INTEGER = 2**53
_PLANS_REMEMBERED = 256
_PATHS_REMEMBERED = 4096


class Group(NamedTuple):
    """Settings of one section under its title, with its subsections."""

    key: str
    title: str
    help: str
    settings: tuple[Setting, ...]
    subgroups: tuple["Group", ...] = ()

    @property
    def is_one_list(self) -> bool:
        """Whether the group is a single list, which shows its own title."""
        return not self.subgroups and [setting.kind for setting in self.settings] == ["list"]

    @property
    def deep_settings(self) -> tuple[Setting, ...]:
        """Settings of the group and its subgroups."""
        return self.settings + tuple(s for group in self.subgroups for s in group.deep_settings)


Subject = Literal["model", "images", "run", "run with rates"]
CardName = Subject | Literal["verdict", "memory", "cost"]
"""A card next to the settings: a summary, the forecast's verdict or all of it, or the time."""


class PagePlan(NamedTuple):
    """One page of settings and the sections of the config that it shows.

    Subsections with a page of their own are listed in that page's `sections`; the page of the
    enclosing section omits them.

    Attributes:
        cards: The cards next to the settings, from top to bottom: what helps to decide comes
            before plain information.
        objective: The objective whose settings the page holds, with a card that explains which
            one is chosen; "" for other pages.
    """

    name: str
    title: str
    lead: str
    sections: tuple[str, ...]
    cards: tuple[CardName, ...] = ("run",)
    objective: Literal["", "loss", "rewards"] = ""

    @property
    def is_titled(self) -> bool:
        """Whether the groups have titles; a single group uses the title of the page."""
        return len(self.sections) > 1 or any(
            section in _SPLIT_SECTIONS for section in self.sections
        )


# Settings of reward training only; the choice of the objective is on the page of losses.
_REWARD_SETTINGS = tuple(f"objective.{key}" for key in AlignProp.model_fields if key != KIND)
_PLANS = (
    PagePlan("model", "Model", "The model that training starts from.", ("model",), ("model",)),
    PagePlan("data", "Data", "The images to train on, and their captions.", ("data",), ("images",)),
    PagePlan(
        "method",
        "Method",
        "Which part of the model is trained.",
        ("method", "embeddings"),
        ("run", "verdict"),
    ),
    PagePlan(
        "training",
        "Training",
        "How fast and how long the model is trained.",
        ("training", "optimizer", "schedule", "ema"),
        ("run with rates", "verdict"),
    ),
    PagePlan(
        "loss",
        "Loss and noise",
        "The loss, and the noise levels the model is trained at.",
        ("objective",),
        objective="loss",
    ),
    PagePlan(
        "rewards",
        "Rewards",
        "What images are scored by, and how the model is trained to score higher.",
        _REWARD_SETTINGS,
        ("verdict", "cost", "run"),
        objective="rewards",
    ),
    PagePlan(
        "sampling",
        "Sampling",
        "Images generated during training, to follow its progress.",
        ("sampling",),
    ),
    PagePlan(
        "validation",
        "Validation",
        "The loss on images that are not trained on.",
        ("validation",),
    ),
    PagePlan("output", "Output", "The files a run writes.", ("output", "metadata")),
    PagePlan(
        "hardware",
        "Hardware",
        "The device, and settings that trade speed for memory.",
        ("hardware",),
        ("memory", "cost", "run"),
    ),
)
MEMORY_PAGE = next(plan.name for plan in _PLANS if "memory" in plan.cards)
"""The page with all of the memory forecast."""
# Page of sections that no plan names, so that a new section needs no change here.
_FALLBACK_PAGE = "training"
_PAGES_BY_SECTION = {section: plan.name for plan in _PLANS for section in plan.sections}

_TITLES = {
    "data": "Images",
    "data.buckets": "Buckets",
    "data.augmentation": "Augmentation",
    "method": "What is trained",
    "training": "Length and batches",
    "sampling": "When and how",
    "ema": "EMA",
    "objective.rollout": "Sampling",
    "objective.keep": "Staying near the base model",
    "objective.evaluation": "Evaluation",
}
# Sections whose subsections have cards of their own; others show them within one card.
_SPLIT_SECTIONS = ("objective", "data", "sampling")
# Settings on another card than the rest of their section: long ones and lists have their own.
_EXTRA_CARDS = {
    "sampling.prompts": ("prompts",),
    "data.concepts": ("concepts",),
    "data.captions": (
        "caption_source",
        "caption_text",
        "caption_list",
        "trigger",
        "require_captions",
    ),
    "data.cache": (
        "cache_latents",
        "cache_text",
        "latents",
        "cache_folder",
        "cache_limit",
        "cache_batch",
        "loader_threads",
    ),
}
_CARD_OF = {
    f"{card.partition('.')[0]}.{key}": card for card, keys in _EXTRA_CARDS.items() for key in keys
}
# Cards whose order differs from that of the config.
_CARD_ORDER = (
    "data",
    "data.concepts",
    "data.captions",
    "data.buckets",
    "data.augmentation",
    "sampling.prompts",
)
# Spelling of key parts that are not plain words.
_SPELLINGS = {"unet": "UNet", "vae": "VAE", "snr": "SNR", "ema": "EMA"}


def pages() -> tuple[PagePlan, ...]:
    """Return the pages of settings; sections that no plan names are included."""
    inner = sections(TrainConfig)
    named = {name for plan in _PLANS for name in plan.sections}
    rest = tuple(name for name in inner if name not in named)
    found = []
    for plan in _PLANS:
        names = plan.sections + (rest if plan.name == _FALLBACK_PAGE else ())
        there = tuple(name for name in names if name.partition(".")[0] in inner)
        found.append(plan._replace(sections=there))
    return tuple(found)


@lru_cache(_PLANS_REMEMBERED)
def groups_in(plan: PagePlan, variants: Variants) -> tuple[Group, ...]:
    """Return the non-empty groups of a page for the chosen variants."""
    names = dict.fromkeys(section.partition(".")[0] for section in plan.sections)
    return tuple(group for name in names for group in _groups(name, variants, plan.name))


def settings_on(plan: PagePlan) -> tuple[Setting, ...]:
    """Return the settings of all variants that a page can show."""
    return tuple(s for s in all_settings() if _is_visible(s) and page_of(s.path) == plan.name)


@lru_cache(_PATHS_REMEMBERED)
def page_of(path: str) -> str:
    """Return the name of the page that shows a setting: that of the innermost section named."""
    section = path
    while section and section not in _PAGES_BY_SECTION:
        section = section.rpartition(".")[0]
    return _PAGES_BY_SECTION.get(section, _FALLBACK_PAGE)


def page_title(path: str) -> str:
    """Return the title of the page that shows a setting."""
    name = page_of(path)
    return next(plan.title for plan in _PLANS if plan.name == name)


def section_title(section: str, variants: Variants) -> str:
    """Return the title of a section: "Text encoder" for "method.text_encoders.te1"."""
    name = section_name(section, variants)
    return _TITLES.get(section) or name[:1].upper() + name[1:]


def section_name(section: str, variants: Variants) -> str:
    """Return the name of a section within a sentence: "text encoder"."""
    key = section.rpartition(".")[2]
    if key in encoders_by_key():
        return encoder_label(key, dict(variants)[FAMILY])
    return " ".join(_SPELLINGS.get(word, word) for word in key.split("_"))


@cache
def _all_by_path() -> dict[str, Setting]:
    """Return all settings by path; of one that several variants have, the last."""
    return {setting.path: setting for setting in all_settings()}


def find_setting(path: str, variants: Variants | None = None) -> Setting | None:
    """Return the setting at a path, also inside a list entry; None if there is none.

    If several variants have it, the chosen one is returned; without `variants` the first.
    """
    known = _all_by_path() if variants is None else dict(settings_by_path(variants))
    if path in known:
        return known[path]
    for name, setting in known.items():
        if setting.item is not None and path.startswith(f"{name}."):
            rest = path.removeprefix(f"{name}.").partition(".")[2]
            inner = (item for item in entries_of(setting) if item.path == rest)
            return next(inner, setting)
    return None


def edit_text(value: object) -> str:
    """Return a value as an editor shows it."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return number_text(value)
        case _:
            return str(value)


def display_text(value: object, setting: Setting) -> str:
    """Return a value for display: the label of a choice, "on" or "off" for a switch."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return setting.choice_label(value) if setting.kind == "choice" else edit_text(value)


def parse_value(text: str, setting: Setting) -> object:
    """Return the value of a typed text; text that is not valid stays text.

    Numbers may be written 1e-4, 1_000 or 1/3. Quotes and spaces around a path are removed.
    """
    match setting.kind:
        case "integer" | "amount" | "number":
            return _as_number(text, is_integer=setting.kind != "number", setting=setting)
        case "text" if setting.ui.is_path:
            return text.strip().strip("\"'")
        case _:
            return text


def _groups(name: str, variants: Variants, page: str) -> list[Group]:
    """Return the groups of a section on a page: one, or one per subsection."""
    by_section: dict[str, list[Setting]] = {}
    for setting in settings_in(variants):
        is_here = setting.path.startswith(f"{name}.") and page_of(setting.path) == page
        if is_here and _is_visible(setting):
            card = _CARD_OF.get(setting.path) or section_of(setting.path)
            by_section.setdefault(card, []).append(setting)
    heads = [name]
    if name in _SPLIT_SECTIONS:
        heads += [section for section in by_section if section.count(".") == 1]
        heads.sort(
            key=lambda head: _CARD_ORDER.index(head) if head in _CARD_ORDER else len(_CARD_ORDER)
        )
    found = []
    for head in heads:
        subgroups = tuple(
            _group(section, variants, inner)
            for section, inner in by_section.items()
            if section not in heads and _innermost(section, heads) == head
        )
        group = _group(head, variants, by_section.get(head, []), subgroups)
        if group.deep_settings:
            found.append(group)
    return found


def _innermost(section: str, heads: list[str]) -> str:
    """Return the innermost section that contains another one; "" if none does."""
    around = [head for head in heads if section.startswith(f"{head}.")]
    return max(around, key=len, default="")


def _group(
    section: str, variants: Variants, inner: list[Setting], subgroups: tuple[Group, ...] = ()
) -> Group:
    made = section_at(section, variants)
    lead = without_source(" ".join((made.__doc__ or "").split())) if made is not None else ""
    choice = next((s for s in inner if s.path == f"{section}.{KIND}"), None)
    is_inner = "." in section
    title = choice.ui.label if choice is not None and is_inner else section_title(section, variants)
    group = Group(section, title, lead, tuple(inner), subgroups)
    return group._replace(title=inner[0].ui.label) if group.is_one_list else group


def _is_visible(setting: Setting) -> bool:
    return setting.ui.level != "hidden" and "." in setting.path


def _as_number(text: str, *, is_integer: bool, setting: Setting) -> object:
    stripped = text.strip()
    if not stripped and setting.is_optional:
        return None
    fraction = _FRACTION.match(stripped)
    if fraction and int(fraction[2]) != 0 and not is_integer:
        return int(fraction[1]) / int(fraction[2])
    if not any(sign.isdigit() for sign in stripped) or not _NUMBER.match(stripped):
        return text
    plain = stripped.replace("_", "")
    if is_integer and plain.lstrip("+-").isdecimal():
        return int(plain)
    number = float(plain)
    if is_integer and number.is_integer() and abs(number) <= _EXACT_INTEGER:
        return int(number)
    return number
