"""A person's own function, "file.py:function" or "module:function": which files it comes from.

Nothing of it is run or imported here; that is for the worker, after consent.
"""

import ast
import os
import sys
from dataclasses import dataclass
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path

from onetrainer.errors import UserError

FILE_END = ".py"
_FORMS = 'Expected "file.py:function" or "module:function"'


@dataclass(frozen=True)
class OwnFunction:
    """Where a function is.

    name: of the function. file: that it is in, absolute. module: its dotted name, None where the
    spec names a file. files: all that would run to get at it, the packages around the module first.
    modules: their dotted names; none where the spec names a file.
    """

    name: str
    file: Path
    module: str | None
    files: tuple[Path, ...]
    modules: tuple[str, ...] = ()


def find_function(spec: str, folder: Path | None = None) -> OwnFunction:
    """Where the function of a spec is, without importing anything.

    folder: what a relative file is taken from; None for the current one. A module is looked for
    where this Python would. Raises UserError where the spec, the file or the function is wrong.
    """
    place, name = _split(spec)
    if place.endswith(FILE_END):
        file = _absolute(place, folder or Path.cwd())
        if not file.is_file():
            raise UserError(f"{file}: there is no such file", _FORMS, "Check the path")
        found = OwnFunction(name, file, None, (file,))
    else:
        files = _files_of(place)
        found = OwnFunction(name, files[place], place, (*files.values(),), (*files,))
    _check_name(found)
    return found


def absolute_spec(spec: str, folder: Path) -> str:
    """The spec with its file's path absolute; a module's, or a wrong one, as it is."""
    place, colon, name = spec.rpartition(":")
    if not colon or not place.endswith(FILE_END):
        return spec
    return f"{_absolute(place, folder)}:{name}"


def read_bytes(path: Path) -> bytes:
    """A file's bytes. Raises UserError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"{path}: cannot be read ({reason})", "", "Check the file") from error


def _absolute(place: str, folder: Path) -> Path:
    """One path for one file, however it is written: consent is kept by it."""
    try:
        path = Path(place).expanduser()
    except RuntimeError as error:
        raise UserError(f"{place}: there is no such user here", _FORMS, "Correct it") from error
    return Path(os.path.normpath((folder / path).absolute()))


def _split(spec: str) -> tuple[str, str]:
    place, colon, name = spec.strip().rpartition(":")
    if not colon or not place or not name.isidentifier():
        raise UserError(
            f'"{spec}" names no function', _FORMS, 'Write it so, as in "rewards.py:my_reward"'
        )
    return place, name


def _files_of(module: str) -> dict[str, Path]:
    """The files that importing a module runs, by their dotted names, its own last."""
    files: dict[str, Path] = {}
    search: list[str] | None = None  # None: where top-level modules are
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        dotted = ".".join(parts[:count])
        found = PathFinder.find_spec(dotted, search) if parts[count - 1].isidentifier() else None
        if found is None or (count < len(parts) and found.submodule_search_locations is None):
            raise UserError(
                f"{dotted}: this Python ({sys.prefix}) has no such module",
                _FORMS,
                "Install the module there, or give the path of the file",
            )
        locations = found.submodule_search_locations
        search = None if locations is None else list(locations)
        if isinstance(found.loader, SourceFileLoader) and found.origin is not None:
            files[dotted] = Path(found.origin).absolute()
        elif found.loader is not None or count == len(parts):
            raise UserError(
                f"{dotted}: this module is no Python source",
                "A module that can be read was expected",
                "Put a function around it into a file of yours",
            )
    return files


def _check_name(found: OwnFunction) -> None:
    """Raises UserError where the file is no Python, or names nothing so at its top level."""
    source = read_bytes(found.file)
    try:
        tree = ast.parse(source, str(found.file))
    except (SyntaxError, ValueError) as error:  # ValueError: null bytes, in some versions
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise UserError(
            f"{found.file}{line}: this is not valid Python ({error.args[0]})",
            "",
            "Correct that place",
        ) from error
    if found.name not in _top_names(tree):
        raise UserError(
            f'{found.file}: there is no function "{found.name}" in it',
            "A function at the file's top level was expected",
            "Check its name",
        )


def _top_names(tree: ast.Module) -> set[str]:
    """What a file may define: wherever at module level, be it inside an `if` or a `try`."""
    names: set[str] = set()
    waiting: list[ast.AST] = [*tree.body]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names |= {alias.asname or alias.name.partition(".")[0] for alias in aliases}
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Lambda():
                continue
            case _:
                waiting.extend(ast.iter_child_nodes(node))
    return names
