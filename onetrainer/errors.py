"""Errors that are meant for people."""

from dataclasses import dataclass

EXIT_DONE = 0
EXIT_PROGRAM = 1
EXIT_USER = 2
EXIT_STOPPED = 3


class UserError(Exception):
    """Something a person can put right; shown in three parts and without a traceback.

    what: what is wrong, with the place and the value. expected: what was expected there.
    remedy: what to do now.
    """

    def __init__(self, what: str, expected: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.expected = expected
        self.remedy = remedy

    def __str__(self) -> str:
        return " ".join(sentence(part) for part in (self.what, self.expected, self.remedy) if part)


@dataclass(frozen=True)
class Fix:
    """A change of one setting that puts a problem right.

    path: the setting's dotted path. value: what it is to be.
    """

    path: str
    value: str | int | float | bool


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a config: where, what, what was expected, what to do.

    path: the field's dotted path, "" where the whole file is meant.
    severity: an "error" forbids the start; a "warning" is unusual but allowed.
    cure: what the window offers to do at a click; None where a person has to decide.
    choices: what it offers to decide between.
    """

    path: str
    what: str
    expected: str = ""
    remedy: str = ""
    severity: str = "error"
    fix: Fix | None = None
    choices: tuple[Fix, ...] = ()

    def __str__(self) -> str:
        parts = (self.what, self.expected, self.remedy)
        text = " ".join(sentence(part) for part in parts if part)
        return f"{self.path}: {text}" if self.path else text


class ProblemsError(UserError):
    """Every problem of a config at once."""

    def __init__(self, problems: list[Problem], source: str = "") -> None:
        count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
        place = f"{source}: " if source else ""
        lines = "\n".join(f"  {problem}" for problem in problems)
        super().__init__(f"{place}{count}\n{lines}")
        self.problems = problems

    def __str__(self) -> str:
        return self.what


def sentence(text: str) -> str:
    """The text with a full stop at its end, unless it already ends a sentence."""
    text = text.strip()
    return text if text.endswith((".", "!", "?", ":")) else text + "."


def for_programs(problem: str) -> str:
    """The JSON that a program gets of what is wrong, where it asked for JSON."""
    import json

    return json.dumps({"problem": problem}, indent=2, ensure_ascii=False)
