"""Errors that are shown to users."""

from collections.abc import Sequence
from dataclasses import dataclass

from onetrainer.redaction import without_tokens

EXIT_DONE = 0
EXIT_PROGRAM = 1
EXIT_USER = 2
EXIT_STOPPED = 3


class KnownError(Exception):
    """An error whose kind is in the catalog `onetrainer/run/failures.py`; "" if it is not."""

    failure = ""


class UserError(KnownError):
    """An error that the user can fix; shown in three parts and without a traceback.

    Args:
        what: What is wrong, with the place and the value.
        expected: What was expected there.
        remedy: What to do now.
        failure: Its kind; "" for that of the error that it was raised from.
    """

    def __init__(
        self, what: str, expected: str = "", remedy: str = "", *, failure: str = ""
    ) -> None:
        self.what, self.expected, self.remedy = map(without_tokens, (what, expected, remedy))
        self.failure = failure or self.failure
        super().__init__(self.what)

    def __str__(self) -> str:
        return _join_sentences(self.what, self.expected, self.remedy)


class EndsRun(UserError):
    """An error that ends a run wherever it occurs, also beside its steps."""


class StateLost(EndsRun):
    """The trained weights are not those of a whole step, or not finite: they are not saved."""

    failure = "diverged"


@dataclass(frozen=True)
class Fix:
    """A change of one setting that fixes a problem.

    path: The setting's dotted path. value: Its new value.
    """

    path: str
    value: str | int | float | bool | list[dict[str, object]]


@dataclass(frozen=True)
class Offer(Fix):
    """A fix whose button has a label of its own; also: changes of other settings with it."""

    label: str = ""
    also: tuple[Fix, ...] = ()


CORRECT, CHOOSE, LEAVE_OUT = "Correct it.", "Choose one.", "Correct it, or leave it out"
OBVIOUS_REMEDIES = (CORRECT, CHOOSE, LEAVE_OUT)
"""Beginnings of remedies that say nothing new next to the field of the problem."""


@dataclass(frozen=True)
class Problem:
    """One problem of a config: where, what, what was expected, what to do.

    path: The setting's dotted path; "" for the whole file.
    severity: An "error" prevents the start; a "warning" is unusual but allowed.
    fix: The change that the window offers as a button; None if the user has to decide.
    choices: The alternatives that the window offers then.
    line: The line of the config file; 0 if it is not there.
    """

    path: str
    what: str
    expected: str = ""
    remedy: str = ""
    severity: str = "error"
    fix: Fix | None = None
    choices: tuple[Fix, ...] = ()
    line: int = 0

    def __post_init__(self) -> None:
        for name in ("what", "expected", "remedy"):
            object.__setattr__(self, name, without_tokens(vars(self)[name]))

    def __str__(self) -> str:
        text = _join_sentences(self.what, self.expected, self.remedy)
        line = f" (line {self.line})" if self.line else ""
        return f"{self.path}{line}: {text}" if self.path else text


def warning(
    path: str,
    what: str,
    expected: str = "",
    remedy: str = "",
    *,
    to: str | int | float | bool | None = None,
    fix: Fix | None = None,
    choices: tuple[Fix, ...] = (),
) -> Problem:
    """Return a problem that does not prevent the start; `to` fixes it as the setting's value."""
    own = fix if to is None else Fix(path, to)
    return Problem(path, what, expected, remedy, "warning", own, choices)


class ProblemsError(UserError):
    """All problems of a config in one error."""

    def __init__(self, problems: list[Problem], source: str = "") -> None:
        count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
        place = f"{source}: " if source else ""
        lines = "\n".join(f"  {problem}" for problem in problems)
        super().__init__(f"{place}{count}\n{lines}")
        self.problems = problems

    def __str__(self) -> str:
        return self.what


def sentence(text: str) -> str:
    """Return the text with a period at its end, unless it already ends a sentence."""
    text = text.strip()
    return text if text.endswith((".", "!", "?", ":")) else text + "."


def some_of(names: Sequence[str], most: int) -> str:
    """Return the first names, and how many more there are: "a, b and 3 more"."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _join_sentences(*parts: str) -> str:
    return " ".join(sentence(part) for part in parts if part)


def problem_json(problem: str) -> str:
    """Return the JSON document that reports an error to a program."""
    import json

    return json.dumps({"problem": problem}, indent=2, ensure_ascii=False)
