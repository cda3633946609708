"""Conversion of command line options to requests, with errors in terms of options."""

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

# Messages name settings of a config; the commands for files have options instead.
_SETTINGS = re.compile(
    r"\b(?:model\.(family|prediction|zero_terminal_snr|vae|clip_skip|offline)"
    r"|hardware\.(device|precision))\b"
)

# A switch is left out instead of turned off.
_TURNED_OFF = re.compile(r"\b(T|t)urn off model\.offline\b")

# Repeatable options have singular names; their fields have plural ones.
_OPTIONS: Mapping[str, str] = MappingProxyType(
    {"prompts": "prompt", "seeds": "seed", "loras": "lora", "embeddings": "embedding"}
)

Request = TypeVar("Request", bound=Section)


def request_values(options: argparse.Namespace, request: type[Section]) -> dict[str, object]:
    """Return the values of a request's fields that the command line sets."""
    return {
        name: value
        for name, value in vars(options).items()
        if name in request.model_fields and value is not None
    }


def validate_request(request: type[Request], values: Mapping[str, object]) -> Request:
    """Return the request with these values. Raises UserError that names the wrong options."""
    try:
        return request.model_validate(values)
    except ValidationError as error:
        problems = [
            replace(problem, path=_option(problem.path))
            for problem in _innermost(problems_of(error, request))
        ]
        if len(problems) > 1:
            raise ProblemsError(problems) from error
        raise UserError(str(problems[0])) from error


def _option(path: str) -> str:
    """Return the option of a field's path: "--lora" for "loras.0.strength"."""
    field = path.partition(".")[0]
    return "--" + _OPTIONS.get(field, field).replace("_", "-")


def _innermost(problems: list[Problem]) -> list[Problem]:
    """Drop problems of a list that is too short only because some of its entries are wrong."""
    paths = [problem.path for problem in problems]
    return [
        problem
        for problem in problems
        if not any(path.startswith(f"{problem.path}.") for path in paths)
    ]


def with_option_names(text: str) -> str:
    """Return a message with options in place of settings: "--clip-skip" for "model.clip_skip"."""
    text = _TURNED_OFF.sub(
        lambda match: ("Leave" if match[1] == "T" else "leave") + " out --offline", text
    )
    return _SETTINGS.sub(lambda match: "--" + (match[1] or match[2]).replace("_", "-"), text)


def error_with_option_names(error: UserError) -> UserError:
    """Return the error with options in place of settings."""
    return UserError(*map(with_option_names, (error.what, error.expected, error.remedy)))
