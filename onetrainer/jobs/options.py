"""Requests as options of the command line, made from their fields as the window's form is."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from pydantic import ValidationError

from onetrainer.config.base.section import Section
from onetrainer.config.fields import settings
from onetrainer.config.problems import problems_of
from onetrainer.errors import Problem, ProblemsError, UserError, sentence

_METAVARS: Mapping[str, str] = {
    "integer": "N",
    "number": "X",
    "text": "TEXT",
    "choice": "NAME",
    "list": "TEXT",
}

Request = TypeVar("Request", bound=Section)


def add_options(
    parser: argparse.ArgumentParser, request: type[Section], *, optional: str = ""
) -> None:
    """Add an option for each labeled field of a request; required ones are positional.

    So is one that is optional: after the others it may be left out.
    A field's text is the help, its unit the placeholder, its lead the title of a group.
    """
    group: argparse._ActionsContainer = parser
    for setting in settings(request):
        ui, name = setting.ui, setting.path
        if ui.lead:
            group = parser.add_argument_group(ui.lead)
        text = setting.help
        metavar = ui.unit or _METAVARS.get(setting.kind)
        if setting.choices:
            text += f" One of {', '.join(filter(None, setting.choices))}."
        is_required = request.model_fields[name].is_required()
        default = "" if is_required else setting.default
        if setting.kind == "list":
            default = ", ".join(map(str, default))
        if default not in (None, "", False, "auto"):
            text += f" Default: {default}."
        if setting.kind == "yes-no":
            group.add_argument(option_of(name), action="store_true", help=text)
        elif setting.kind == "list":
            text += " Can be repeated."
            group.add_argument(
                option_of(name), action="append", dest=name, metavar=metavar, help=text
            )
        elif is_required or name == optional:
            group.add_argument(
                name, metavar=metavar, help=text, nargs="?" if name == optional else None
            )
        else:
            group.add_argument(option_of(name), metavar=metavar, help=text)


def request_values(options: argparse.Namespace, request: type[Section]) -> dict[str, object]:
    """Return the values of a request's fields that the command line sets."""
    return {
        name: value
        for name, value in vars(options).items()
        if name in request.model_fields and value is not None
    }


def naming_options(text: str, request: type[Section]) -> str:
    """Return a message about settings with the options of a request that stand for them."""
    named = {
        f"{section}.{name}": option_of(name)
        for name in request.model_fields
        for section in ("model", "hardware")
        if f"{section}.{name}" in text
    }
    notes = (f"Here, {setting} is {option}." for setting, option in named.items())
    return " ".join([sentence(text), *notes]) if named else text


def validate_request(request: type[Request], values: Mapping[str, object]) -> Request:
    """Return the request with these values. Raises UserError that names the wrong options."""
    try:
        return request.model_validate(values)
    except ValidationError as error:
        problems = [
            replace(problem, path=option_of(problem.path))
            for problem in _innermost(problems_of(error, request))
        ]
        if len(problems) > 1:
            raise ProblemsError(problems) from error
        raise UserError(str(problems[0])) from error


def option_of(path: str) -> str:
    """Return the option of a field's path: "--lora" for "loras.0.strength"."""
    # Lists have plural names; an option that can be repeated has a singular one.
    field = path.partition(".")[0]
    singular = {"prompts": "prompt", "seeds": "seed", "loras": "lora", "embeddings": "embedding"}
    return "--" + singular.get(field, field).replace("_", "-")


def _innermost(problems: list[Problem]) -> list[Problem]:
    """Drop "too short" problems of lists that have invalid entries."""
    paths = [problem.path for problem in problems]
    return [
        problem
        for problem in problems
        if not any(path.startswith(f"{problem.path}.") for path in paths)
    ]
