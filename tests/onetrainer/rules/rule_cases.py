"""Configs by their settings' paths, and the problems that the rules find in them."""

from onetrainer.presets.presets import resolve, with_value, with_variant
from onetrainer.rules.rules import check_rules

BASE = {"model.path": "base", "data.folder": "/a"}
"""What every config has that a case does not change; the rules have nothing against it."""


def document_of(changes):
    """Return the document of a config with some settings."""
    document = {}
    for path, value in (BASE | changes).items():
        document = with_value(document, path, value)
    return document


def problems_of(document):
    return check_rules(resolve(document, source="test"))


def reported(changes):
    """Return the problems of settings by path."""
    return {problem.path: problem for problem in problems_of(document_of(changes))}


def check(changes, *expected):
    """Check that settings have exactly these problems, and that each fix mends its own.

    expected: "error PATH" or "warning PATH", and where that matters " | " and words of the problem.
    """
    document = document_of(changes)
    problems = problems_of(document)
    found = sorted(f"{problem.severity} {problem.path}" for problem in problems)
    assert found == sorted(text.partition(" | ")[0] for text in expected), changes
    said = "\n".join(f"{problem.path}: {problem} {problem.fix}" for problem in problems)
    assert all(text.partition(" | ")[2] in said for text in expected), said
    for problem in problems:
        assert problem.what and problem.remedy
        for fix in (*problem.choices, *([problem.fix] if problem.fix else [])):
            section = fix.path.removesuffix(".kind")
            change = with_value if section == fix.path else with_variant
            mended = problems_of(change(document, section, fix.value))
            assert (problem.path, problem.what) not in [(one.path, one.what) for one in mended], fix
