"""Problems as the window shows them, with its labels of settings and values."""

import re
from collections.abc import Sequence
from functools import cache

from onetrainer.config.fields import Setting
from onetrainer.errors import OBVIOUS_REMEDIES, Fix, Offer, Problem, sentence
from ui.model.form_fields import display_text, edit_text, find_setting
from ui.model.variants import Variants, all_settings, entries_of, is_variant_choice, section_of


def problem_text(problem: Problem) -> str:
    """Return the text of a problem next to its field."""
    # The button of an offer says what to do.
    is_plain = isinstance(problem.fix, Offer) or problem.remedy.startswith(OBVIOUS_REMEDIES)
    remedy = "" if is_plain else problem.remedy
    parts = [capitalized(problem.what), problem.expected, remedy]
    return " ".join(sentence(with_labels(part, problem.path)) for part in parts if part)


def problem_lines(problems: Sequence[Problem]) -> tuple[str, str]:
    """Return the text of all problems of a setting, and the style of its label."""
    style = "SmallDanger" if problems[0].severity == "error" else "SmallWarning"
    return "\n".join(problem_text(problem) for problem in problems), style


def capitalized(text: str) -> str:
    """Capitalize a text unless it begins with a name: "model.safetensors: …"."""
    place, colon, _ = text.partition(": ")
    is_name = bool(colon) and (" " not in place or "." in place)
    return text if is_name else text[:1].upper() + text[1:]


def fix_label(fix: Fix, path: str) -> str:
    """Return the label of the button that applies a fix: "Use fp32", "Turn it off"."""
    if isinstance(fix, Offer):
        return fix.label
    setting = find_setting(fix.path)
    label = setting.ui.label if setting else fix.path
    if isinstance(fix.value, bool):
        which = "it" if fix.path == path else f"“{label}”"
        return f"Turn {which} {'on' if fix.value else 'off'}"
    value = display_text(fix.value, setting) if setting else edit_text(fix.value)
    return f"Use {value}" if fix.path == path else f"Set “{label}” to {value}"


def implied_change_message(fix: Fix, variants: Variants) -> str:
    """Return the message about a setting that the choice of a method has changed."""
    setting, method = find_setting(fix.path), find_setting("method.kind")
    label = setting.ui.label if setting else fix.path
    value = display_text(fix.value, setting) if setting else edit_text(fix.value)
    chosen = display_text(dict(variants)["method"], method) if method else ""
    return f"“{label}” was set to “{value}”, which {chosen} requires."


def join_list(words: Sequence[str]) -> str:
    """Join texts: "VAE, UNet and text encoder"."""
    *most, last = words or ("",)
    return f"{', '.join(most)} and {last}" if most else last


def settings_in(text: str) -> list[str]:
    """Return the paths of the settings that a text names, in its order."""
    return list(dict.fromkeys(_any_path().findall(text)))


def with_labels(text: str, path: str = "") -> str:
    """Replace names in a text by labels: "auto" by “automatic”, model.family by “Model family”.

    Values are looked up in the settings that the text names, in the section of `path`, and in the
    variant choices of sections that the text names.
    """
    section = path.partition(".")[0]
    named = set(_any_path().findall(text))
    words = set(re.findall(r"\w+", text))
    for setting in _labels().values():
        is_here = setting.path.startswith(f"{section}.")
        is_kind_of_named = is_variant_choice(setting.path) and section_of(setting.path) in words
        if setting.path in named or is_here or is_kind_of_named:
            for value in setting.choices:
                word = setting.choice_label(value)
                for quoted in (f'"{value}" ({word})', f'"{value}"'):
                    text = text.replace(quoted, f"“{word}”")
    for found in named:
        label = _labels()[found].ui.label
        for quoted in (f'"{label}" ({found})', f"“{label}” ({found})"):
            text = text.replace(quoted, f"“{label}”")
    text = re.sub(r'"([^"\n]+)"', _quoted_label, text)
    return _any_path().sub(lambda found: f"“{_labels()[found[0]].ui.label}”", text)


def _quoted_label(found: re.Match[str]) -> str:
    """Return a quoted label in the window's quotes; commands and values stay as they are."""
    return f"“{found[1]}”" if found[1] in _label_texts() else found[0]


@cache
def _label_texts() -> frozenset[str]:
    """Return the labels of all settings, also of those within entries of lists."""
    known = all_settings()
    inner = (item for setting in known if setting.item for item in entries_of(setting))
    return frozenset(setting.ui.label for setting in (*known, *inner))


@cache
def _labels() -> dict[str, Setting]:
    """Return the settings of sections by path; paths without a dot are plain words as well."""
    return {
        setting.path: setting
        for setting in all_settings()
        if "." in setting.path and setting.ui.level != "hidden"
    }


@cache
def _any_path() -> re.Pattern[str]:
    """Return a pattern for the path of any setting that is not part of a file name."""
    paths = "|".join(re.escape(path) for path in sorted(_labels(), key=len, reverse=True))
    return re.compile(rf"(?<![\w./\\-])(?:{paths})(?![\w/\\-]|\.\w)")
