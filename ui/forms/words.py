"""Problems as the window says them: with the words it has for settings and their values. No Tk."""

import re
from functools import cache

from onetrainer.config.fields import Setting, settings
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Cure, Problem, sentence
from ui.forms.fields import setting_of


def in_words(problem: Problem) -> str:
    """A problem as it is said beside the field."""
    parts = [
        capitalized(problem.what),
        problem.expected,
        "" if _is_plain(problem) else problem.remedy,
    ]
    return " ".join(sentence(_as_window(part, problem.path)) for part in parts if part)


def capitalized(text: str) -> str:
    """The text with a capital at its start, unless it starts with a name: "sdxl.safetensors: …"."""
    place, colon, _ = text.partition(": ")
    is_name = bool(colon) and (" " not in place or "." in place)
    return text if is_name else text[:1].upper() + text[1:]


def cure_words(cure: Cure) -> str:
    """What the button says that puts a problem right: "Use SDXL"."""
    setting = setting_of(cure.path)
    return f"Use {setting.word(cure.value) if setting else cure.value}"


def _is_plain(problem: Problem) -> bool:
    """Whether the remedy only says to correct the value, which goes without saying there."""
    return problem.remedy.startswith(("Correct it", "Choose one"))


def _as_window(text: str, path: str) -> str:
    """The text with “SDXL” for "sdxl" and “Model family” for model.family.

    The values are those of the settings that it names, and of the section of the one at `path`.
    """
    section = path.partition(".")[0]
    named = set(_any_path().findall(text))
    for setting in _labels().values():
        if setting.path in named or setting.path.startswith(f"{section}."):
            for value in setting.choices:
                text = text.replace(f'"{value}"', f"“{setting.word(value)}”")
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
        for setting in settings(TrainConfig)
        if "." in setting.path and setting.ui.level != "hidden"
    }


@cache
def _any_path() -> re.Pattern[str]:
    """The path of any setting, alone: not within a file's name."""
    paths = "|".join(re.escape(path) for path in sorted(_labels(), key=len, reverse=True))
    return re.compile(rf"(?<![\w./\\-])(?:{paths})(?![\w/\\-]|\.\w)")
