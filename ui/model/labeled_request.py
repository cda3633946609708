"""Requests of jobs from what a person typed. No Tk."""

import re
from collections.abc import Mapping
from typing import TypeVar

from pydantic import ValidationError

from onetrainer.config.base.section import Section
from onetrainer.config.fields import settings
from onetrainer.config.problems import problems_of
from onetrainer.errors import UserError
from onetrainer.jobs.options import option_of

Request = TypeVar("Request", bound=Section)
ARGUMENTS = ("IN", "OUT", "BASE", "TRAINED")
"""What help calls the files and folders that the terminal is given."""


def labeled_request(request: type[Request], values: Mapping[str, object]) -> Request:
    """Return the request with these values.

    Raises:
        UserError: For the first value that is not allowed, named by its field's label.
    """
    try:
        return request.model_validate(values)
    except ValidationError as error:
        problem = problems_of(error, request)[0]
        labels = {setting.path: setting.ui.label for setting in settings(request)}
        name = problem.path.partition(".")[0]
        raise UserError(
            f"{labels.get(name, name)}: {problem.what}", problem.expected, problem.remedy
        ) from error


def in_words_of_the_window(text: str, request: type[Section]) -> str:
    """Return a text with the labels of fields in place of the terminal's options and arguments."""
    for setting in settings(request):
        names = [option_of(setting.path)]
        names += [rf"\b{setting.ui.unit}"] if setting.ui.unit in ARGUMENTS else []
        for name in names:
            text = re.sub(rf"{name}\b", f"“{setting.ui.label}”", text)
    return text
