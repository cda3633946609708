"""The config's fields as pages, groups and rows; values as text and text as values. No Tk."""

import re
from dataclasses import dataclass, field

from onetrainer.config.fields import Setting, sections, settings
from onetrainer.config.train import TrainConfig

_NUMBER = re.compile(r"^[+-]?(\d[\d_]*)?\.?(\d[\d_]*)?(e[+-]?\d+)?$", re.IGNORECASE)
_FRACTION = re.compile(r"^\s*(\d+)\s*/\s*(\d+)\s*$")
_EXACT_INTEGER = 2**53


@dataclass(frozen=True)
class Group:
    """The settings of one section, under its title."""

    key: str
    title: str
    help: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class PagePlan:
    """One page of settings: which sections of the config it shows, in its order."""

    name: str
    title: str
    lead: str
    sections: tuple[str, ...]
    groups: tuple[Group, ...] = field(default=())


_PLANS = (
    PagePlan("model", "Model", "The model that training starts from.", ("model",)),
    PagePlan("data", "Data", "The pictures that are learned, and their captions.", ("data",)),
    PagePlan(
        "training",
        "Training",
        "How the model learns, how fast and for how long.",
        ("training", "method", "optimizer", "schedule", "objective"),
    ),
    PagePlan(
        "sampling",
        "Sampling",
        "Pictures drawn while training, to see how far it has come.",
        ("sampling",),
    ),
    PagePlan("output", "Output", "The files a run leaves behind.", ("output", "metadata")),
    PagePlan("hardware", "Hardware", "The device, and what trades memory for time.", ("hardware",)),
)
# Where a section that no plan names is shown, so that a new one needs no change here.
_REST = "training"

_TITLES = {"method": "What is trained", "training": "Length and batches"}


def pages() -> tuple[PagePlan, ...]:
    """The pages of settings, made from the config's own classes."""
    inner = sections(TrainConfig)
    named = {name for plan in _PLANS for name in plan.sections}
    rest = tuple(name for name in inner if name not in named)
    found = []
    for plan in _PLANS:
        names = plan.sections + (rest if plan.name == _REST else ())
        groups = tuple(_group(name) for name in names if name in inner)
        found.append(PagePlan(plan.name, plan.title, plan.lead, names, groups))
    return tuple(found)


def page_of(path: str) -> str:
    """The name of the page on which a setting is shown."""
    section = path.partition(".")[0]
    for plan in _PLANS:
        if section in plan.sections:
            return plan.name
    return _REST


def setting_of(path: str) -> Setting | None:
    """The setting at a path, also inside an entry of a list; None if there is none."""
    known = {setting.path: setting for setting in settings(TrainConfig)}
    if path in known:
        return known[path]
    for name, setting in known.items():
        if setting.item is not None and path.startswith(f"{name}."):
            rest = path.removeprefix(f"{name}.").partition(".")[2]
            inner = (item for item in settings(setting.item) if item.path == rest)
            return next(inner, setting)
    return None


def as_text(value: object) -> str:
    """A value as an editor shows it."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return _number_text(value)
        case _:
            return str(value)


def as_words(value: object, setting: Setting) -> str:
    """A value as the window tells it: a choice by the word that people know."""
    return setting.word(value) if setting.kind == "choice" else as_text(value)


def as_value(text: str, setting: Setting) -> object:
    """What was typed, as the value it means; text that means none stays text.

    Numbers may be written 1e-4, 1_000 or 1/3. A path loses quotes and spaces around it.
    """
    match setting.kind:
        case "integer" | "number":
            return _as_number(text, is_integer=setting.kind == "integer", setting=setting)
        case "text" if setting.ui.is_path:
            return text.strip().strip("\"'")
        case _:
            return text


def _group(name: str) -> Group:
    section = sections(TrainConfig)[name]
    shown = tuple(
        setting for setting in settings(section, f"{name}.") if setting.ui.level != "hidden"
    )
    title = _TITLES.get(name, name.replace("_", " ").capitalize())
    lead = " ".join((section.__doc__ or "").split())
    return Group(name, title, lead, shown)


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


def _number_text(value: float) -> str:
    if value.is_integer() and abs(value) < 1e15:  # beyond it, repr writes an exponent as well
        return str(int(value))
    text = repr(value)
    mantissa, marker, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if marker else _short(value, text)


def _short(value: float, text: str) -> str:
    """0.0001 as 1e-4, as people write learning rates; 0.05 as it is."""
    if 0 < abs(value) < 1e-3:
        mantissa, _, exponent = f"{value:.12e}".partition("e")
        mantissa = mantissa.rstrip("0").rstrip(".")
        return f"{mantissa}e{int(exponent)}"
    return text
