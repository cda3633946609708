"""Options of a command line as a request, and what is wrong with them in the words of options."""

import argparse
import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from pydantic import ValidationError

from onetrainer.config.base.section import Section
from onetrainer.config.problems import problems_of
from onetrainer.errors import Problem, ProblemsError, UserError

# Messages name settings as a config has them; the commands for files have options instead.
_SETTINGS = re.compile(
    r"\b(?:model\.(family|prediction|zero_terminal_snr|vae|clip_skip|offline)"
    r"|hardware\.(device|precision))\b"
)

# An option that is a switch is not turned off but left out.
_TURNED_OFF = re.compile(r"\b(T|t)urn off model\.offline\b")

# Options that may be given several times are named for one; their fields hold all of them.
_OPTIONS: Mapping[str, str] = MappingProxyType(
    {"prompts": "prompt", "seeds": "seed", "loras": "lora", "embeddings": "embedding"}
)

Request = TypeVar("Request", bound=Section)


def given(options: argparse.Namespace, kind: type[Section]) -> dict[str, object]:
    """The values of a request's fields that the command line names."""
    found = {name: value for name, value in vars(options).items() if name in kind.model_fields}
    return {name: value for name, value in found.items() if value is not None}


def validated(kind: type[Request], values: Mapping[str, object]) -> Request:
    """The request; raises UserError that names the wrong options."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problems = [
            replace(problem, path=_option(problem.path))
            for problem in _innermost(problems_of(error, kind))
        ]
        if len(problems) > 1:
            raise ProblemsError(problems) from error
        raise UserError(str(problems[0])) from error


def _option(path: str) -> str:
    """The option that a field's path belongs to: "--lora" of "loras.0.strength"."""
    field = path.partition(".")[0]
    return "--" + _OPTIONS.get(field, field).replace("_", "-")


def _innermost(problems: list[Problem]) -> list[Problem]:
    """Without those of a list as a whole that wrong entries have left too short."""
    paths = [problem.path for problem in problems]
    return [
        problem
        for problem in problems
        if not any(path.startswith(f"{problem.path}.") for path in paths)
    ]


def in_options(text: str) -> str:
    """A message about settings as one about options: "model.clip_skip" is "--clip-skip"."""
    text = _TURNED_OFF.sub(
        lambda found: ("Leave" if found[1] == "T" else "leave") + " out --offline", text
    )
    return _SETTINGS.sub(lambda found: "--" + (found[1] or found[2]).replace("_", "-"), text)


def told_in_options(error: UserError) -> UserError:
    """The same error, with options in place of settings."""
    return UserError(*map(in_options, (error.what, error.expected, error.remedy)))
