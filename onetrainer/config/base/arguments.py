"""Arguments of a function or class of the user's own: a line for each, as "name = value"."""

import json
from typing import Annotated

from pydantic import Field

from onetrainer.config.base.section import Ui
from onetrainer.errors import UserError
from onetrainer.files.lines import split_lines

Arguments = Annotated[
    str,
    Field(
        max_length=10_000,
        description='Its arguments, a line for each: "weight_decay = 0.01", "betas = [0.9, 0.99]",'
        ' "mode = \\"fast\\"". Values are JSON: true and false in lower case, texts in quotes.'
        " Empty leaves all at their defaults.",
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
                found = json.loads(value)
                arguments[name] = tuple(found) if isinstance(found, list) else found
                continue
        except (ValueError, RecursionError):
            wrong = f"{value} is not JSON" if value else "it has no value"
        raise UserError(
            f"line {number}, {name[:100]}: {wrong}",
            'Expected "name = value" with a JSON value, such as weight_decay = 0.01',
            "Correct the line, with texts in double quotes",
        )
    return arguments
