"""Problems as the window says them: with the words it has for settings and their values. No Tk."""

import re
from collections.abc import Sequence
from functools import cache

from onetrainer.config.fields import Setting
from onetrainer.errors import Fix, Problem, sentence
from ui.model.form_fields import display_text, edit_text, find_setting
from ui.model.variants import Variants, all_settings, is_variant_choice, section_of


def problem_text(problem: Problem) -> str:
    """A problem as it is said beside the field."""
    parts = [
        capitalized(problem.what),
        problem.expected,
        "" if _is_plain(problem) else problem.remedy,
    ]
    return " ".join(sentence(_with_labels(part, problem.path)) for part in parts if part)


def capitalized(text: str) -> str:
    """The text with a capital at its start, unless it starts with a name: "sdxl.safetensors: …"."""
    place, colon, _ = text.partition(": ")
    is_name = bool(colon) and (" " not in place or "." in place)
    return text if is_name else text[:1].upper() + text[1:]


def fix_label(fix: Fix, path: str) -> str:
    """What the button says that puts a problem at a path right: "Use SDXL", "Turn it off"."""
    setting = find_setting(fix.path)
    label = setting.ui.label if setting else fix.path
    if isinstance(fix.value, bool):
        which = "it" if fix.path == path else f"“{label}”"
        return f"Turn {which} {'on' if fix.value else 'off'}"
    value = display_text(fix.value, setting) if setting else edit_text(fix.value)
    return f"Use {value}" if fix.path == path else f"Set “{label}” to {value}"


def implied_change_message(fix: Fix, variants: Variants) -> str:
    """What is said of a setting that has changed with the choice of a method."""
    setting, method = find_setting(fix.path), find_setting("method.kind")
    label = setting.ui.label if setting else fix.path
    value = display_text(fix.value, setting) if setting else edit_text(fix.value)
    chosen = display_text(dict(variants)["method"], method) if method else ""
    return f"“{label}” is “{value}” now, which goes with {chosen}."


def join_list(words: Sequence[str]) -> str:
    """("VAE", "UNet", "text encoder") as "VAE, UNet and text encoder"."""
    *most, last = words or ("",)
    return f"{', '.join(most)} and {last}" if most else last


def _is_plain(problem: Problem) -> bool:
    """Whether the remedy only says to correct the value, which goes without saying there."""
    return problem.remedy.startswith(("Correct it", "Choose one"))


def _with_labels(text: str, path: str) -> str:
    """The text with “SDXL” for "sdxl" and “Model family” for model.family.

    The values are those of the settings that it names, of the section of the one at `path`, and
    of the sections that it names whose kinds they are: the method "vae".
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
                for told in (f'"{value}" ({word})', f'"{value}"'):
                    text = text.replace(told, f"“{word}”")
    for found in named:
        label = _labels()[found].ui.label
        text = text.replace(f'"{label}" ({found})', f"“{label}”")
    return _any_path().sub(lambda found: f"“{_labels()[found[0]].ui.label}”", text)


@cache
def _labels() -> dict[str, Setting]:
    """The settings that messages name: those of sections, which the window shows.

    A path without a dot is a plain word as well ("version").
    """
    return {
        setting.path: setting
        for setting in all_settings()
        if "." in setting.path and setting.ui.level != "hidden"
    }


@cache
def _any_path() -> re.Pattern[str]:
    """The path of any setting, alone: not within a file's name."""
    paths = "|".join(re.escape(path) for path in sorted(_labels(), key=len, reverse=True))
    return re.compile(rf"(?<![\w./\\-])(?:{paths})(?![\w/\\-]|\.\w)")
