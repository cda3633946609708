"""What messages name as a remedy exists: commands, options, settings, buttons."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from onetrainer import ROOT
from onetrainer.__main__ import COMMANDS, make_parser
from onetrainer.config.fields import setting_at, settings
from onetrainer.config.renamed import RENAMED
from onetrainer.config.train import TrainConfig
from tests import rules
from tests.each import each

COMMAND = re.compile(r"\bonetrainer ([a-z][a-z-]+)\b([^`;\n]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
SETTING = re.compile(
    rf"\b((?:{'|'.join(TrainConfig.model_fields)})(?:\.[a-z_0-9]+)+)(?![\w.]*[\w(/{{])"
)
NAMED = re.compile(
    r"(?i:turn (?:on|off)|under|press|click|button|page|choose|tick)"
    r"\s+[\"“]([A-Z][^\"”{}]*)[\"”](\s\([a-z_.X]+\))?"
)
# Options of lines of prompts, of start-ui.py, of the worker, and of other programs.
OTHER_OPTIONS = frozenset(
    [
        *("--n", "--w", "--h", "--d", "--l", "--s", "--ss", "--setup-only", "--extra", "--job"),
        *("--check", "--file-filter", "--follow", "--warm", "--logdir", "--help-query-gpu"),
    ]
)
OF_WEBSITES = frozenset(["Raw", "Download"])
FILES = (".safetensors", ".py", ".pkl", ".json")


def texts(source: rules.Source) -> Iterator[tuple[int, str]]:
    """The texts of a source but docstrings; a value in one is X, the program its name."""
    docs = {id(node.value) for node in source.nodes if isinstance(node, ast.Expr)}
    parts = {
        id(part) for node in source.nodes if isinstance(node, ast.JoinedStr) for part in node.values
    }
    for node in source.nodes:
        match node:
            case ast.Constant(value=str(text)) if id(node) not in parts | docs:
                yield node.lineno, text
            case ast.JoinedStr(values=values):
                yield node.lineno, "".join(map(_shown, values))


def _shown(part: ast.expr) -> str:
    match part:
        case ast.Constant(value=str(text)):
            return text
        case ast.FormattedValue(value=ast.Call(func=ast.Name(id="program"))):
            return "onetrainer"
    return "X"


@cache
def options_of(command: str) -> frozenset[str]:
    subparsers = next(iter(make_parser(command)._subparsers._group_actions))
    return frozenset(subparsers.choices[command]._option_string_actions)


@cache
def all_options() -> frozenset[str]:
    return frozenset().union(*map(options_of, COMMANDS)) | {"--help", "--version"} | OTHER_OPTIONS


@cache
def labels() -> frozenset[str]:
    found = {setting.ui.label for setting in settings(TrainConfig)}
    for source in rules.read_sources(ROOT, ["ui", "onetrainer/config"]):
        found |= {text for _, text in texts(source)}
    return frozenset(found)


def faults(text: str, *, is_window: bool = False) -> Iterator[str]:
    """What a text names that does not exist; a terminal has settings, but no labels."""
    for command, rest in COMMAND.findall(text):
        if command not in COMMANDS:
            yield f"there is no command {command}"
            continue
        yield from (
            f"{command} has no {option}"
            for option in OPTION.findall(rest)
            if option not in options_of(command)
        )
    yield from (
        f"there is no option {each}" for each in OPTION.findall(text) if each not in all_options()
    )
    yield from (f"there is no setting {each}" for each in SETTING.findall(text) if not known(each))
    for name, key in NAMED.findall(text):
        if name not in labels() | OF_WEBSITES | {"X"}:
            yield f"there is nothing called {name}"
        elif not is_window and not key and name not in OF_WEBSITES | {"X"}:
            yield f"a terminal has no “{name}”; name its setting behind it, in parentheses"


def known(path: str) -> bool:
    if path.endswith(FILES):
        return True
    whole = {setting.path for setting in settings(TrainConfig)}
    is_part = any(each.startswith(f"{path}.") for each in whole)
    return is_part or setting_at(path) is not None or path in RENAMED


@pytest.mark.parametrize("wing", rules.WINGS)
def test_what_a_message_names_exists(wing):
    found = [
        f"{source.path}:{line}: {fault}"
        for source in rules.read_sources(ROOT, [wing])
        for line, text in texts(source)
        if " " in text
        for fault in faults(text, is_window=wing == "ui")
    ]
    assert "\n".join(found) == ""


@each(
    ("text", "count"),
    [
        ("Resume it with `onetrainer resume X`", 0),
        ("Run `onetrainer repair X`", 1),
        ("Run onetrainer cache --prune, or choose another", 0),
        ("Run onetrainer cache --shrink", 2),
        ("Add --overwrite", 0),
        ("Add --force-it", 1),
        ("Turn it off (data.masks)", 0),
        ("Turn it off (data.mask)", 1),
        ('Turn on "Include subfolders" (data.include_subfolders)', 0),
        ('Turn on "Include subfolders", or choose one', 1),
        ('Turn on "All subfolders"', 1),
    ],
)
def test_a_remedy_that_does_not_exist_is_found(text, count):
    assert len(list(faults(text))) == count
