"""Arguments of a function or class of the user's own: a line for each, as "name = value"."""

import ast
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated

from pydantic import BeforeValidator, Field

from onetrainer.config.base.section import Ui
from onetrainer.errors import UserError
from onetrainer.files.lines import split_lines
from onetrainer.files.own_json import NotOurs, parse_json

_BARE_KEY = re.compile(r"([{,]\s*)([A-Za-z_]\w*)\s*:")
_CONSTANTS = re.compile(r"\b(true|false|null)\b")
_PYTHON = {"true": "True", "false": "False", "null": "None"}


def as_lines(value: object) -> object:
    """Return the lines of arguments that are given as an object; anything else as it is.

    That is an object in JSON or Python, or a text that holds one, as `--set` does: also without the
    quotes that a shell has removed, as in {betas: [0.9, 0.99]}.
    """
    found = value
    if isinstance(value, str) and value.strip().startswith("{"):
        try:
            found = parse_value(_BARE_KEY.sub(r'\1"\2":', value))
        except ValueError:
            return value  # which is reported as no argument
    if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
        return value
    try:
        return "\n".join(f"{name} = {json.dumps(each)}" for name, each in found.items())
    except TypeError:
        return value


def parse_value(text: str) -> object:
    """Return a value in JSON or Python, such as [0.9, 0.99], (0.9, 0.99) or True.

    Raises ValueError if it is neither.
    """
    with suppress(NotOurs):
        return parse_json(text)
    for python in (text, _CONSTANTS.sub(lambda found: _PYTHON[found[0]], text)):
        try:
            return ast.literal_eval(python)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    raise ValueError(text)


Arguments = Annotated[
    str,
    BeforeValidator(as_lines),
    Field(
        max_length=10_000,
        description='Its arguments, a line for each: "weight_decay = 0.01", "betas = [0.9, 0.99]",'
        ' "mode = \\"fast\\""; or all as one object, {"weight_decay": 0.01}. Values are JSON, or'
        " Python's, with texts in quotes. Empty leaves all at their defaults.",
    ),
    Ui("Arguments", editor="text", search="optimizer_args lr_scheduler_args scheduler_params"),
]


def parse_arguments(text: str, *, given: tuple[str, ...] = ()) -> dict[str, object]:
    """Return arguments by name; lists are tuples, as torch expects them.

    given: Names of arguments that the program passes itself.

    Raises:
        UserError: A line is no argument.
    """
    arguments: dict[str, object] = {}
    for number, line in enumerate(split_lines(text), 1):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not line.strip():
            continue
        wrong = "this is no argument"
        try:
            if name in given or name in arguments:
                wrong = "the program sets it" if name in given else "it is given twice"
            elif name.isidentifier() and equals:
                found = parse_value(value)
                arguments[name] = tuple(found) if isinstance(found, list) else found
                continue
        except ValueError:
            wrong = f"{value} is not JSON" if value else "it has no value"
        raise UserError(
            f"line {number}, {name[:100]}: {wrong}",
            'Expected "name = value" with a JSON value, such as weight_decay = 0.01',
            "Correct the line, with texts in double quotes",
        )
    return arguments
