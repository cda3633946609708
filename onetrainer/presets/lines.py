"""Lines of a config file, by which its problems are found."""

from collections.abc import Iterable
from dataclasses import replace

from onetrainer.errors import Problem, UserError
from onetrainer.json_file import Document, lines_of_keys
from onetrainer.presets.find import locate
from onetrainer.presets.presets import load_document, value_at


def with_lines(problems: Iterable[Problem], document: Document, *, source: str) -> list[Problem]:
    """Return the problems of a document, with their lines where the file has the value.

    A missing setting has the line of its section; one that `--set`, another file or a default
    gives has none.

    Args:
        problems: Of the document.
        document: The settings, which may differ from the file's.
        source: The config file, run or preset it was loaded from; "" for none.
    """
    problems = list(problems)
    if not source or not problems:
        return problems
    try:
        path = locate(source, may_be_run=True)
        loaded = load_document(path)
        lines = {
            ".".join(map(str, place)): line
            for place, line in lines_of_keys(path.read_text("utf-8-sig"))
        }
    except (UserError, OSError):
        return problems
    return [
        replace(problem, line=_line(problem.path, lines))
        if value_at(loaded, problem.path) == value_at(document, problem.path)
        else problem
        for problem in problems
    ]


def _line(path: str, lines: dict[str, int]) -> int:
    """Return the line of a setting, or of the innermost section around it; 0 for none."""
    while path and path not in lines:
        path = path.rpartition(".")[0]
    return lines.get(path, 0)
