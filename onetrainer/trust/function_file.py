"""Resolution of a user-defined function, "file.py:function" or "module:function", to its files.

Nothing is run or imported here; the worker does that for trusted files.
"""

import ast
import os
import sys
from dataclasses import dataclass
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path

from onetrainer.errors import UserError

FILE_SUFFIX = ".py"
_FORMS = 'Expected "file.py:function" or "module:function"'


@dataclass(frozen=True)
class UserFunction:
    """The location of a function.

    Attributes:
        name: The function's name.
        file: The absolute path of its file.
        module: Its dotted module name; None if the spec names a file.
        files: All files that importing it runs: the parent packages first, its own file last.
        modules: Their dotted names; empty if the spec names a file.
    """

    name: str
    file: Path
    module: str | None
    files: tuple[Path, ...]
    modules: tuple[str, ...] = ()


def find_function(spec: str, folder: Path | None = None) -> UserFunction:
    """Return the location of a spec's function, without importing anything.

    Args:
        spec: "file.py:function" or "module:function". A module is searched as Python does.
        folder: The folder of a relative file; None means the current one.

    Raises:
        UserError: The spec is invalid, or the file or function does not exist.
    """
    source, name = _split(spec)
    if source.endswith(FILE_SUFFIX):
        file = _absolute(source, folder or Path.cwd())
        if not file.is_file():
            raise UserError(f"{file}: there is no such file", _FORMS, "Check the path")
        function = UserFunction(name, file, None, (file,))
    else:
        files = _files_of(source)
        function = UserFunction(name, files[source], source, (*files.values(),), (*files,))
    _check_name(function)
    return function


def absolute_spec(spec: str, folder: Path) -> str:
    """Return the spec with an absolute file path; others are returned unchanged."""
    source, colon, name = spec.rpartition(":")
    if not colon or not source.endswith(FILE_SUFFIX):
        return spec
    return f"{_absolute(source, folder)}:{name}"


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes. Raises UserError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"{path}: cannot be read ({reason})", "", "Check the file") from error


def _absolute(text: str, folder: Path) -> Path:
    """Return the normalized path of a file, by which trust is stored."""
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:
        what = f"{text}: there is no such user on this computer"
        raise UserError(what, _FORMS, "Correct it") from error
    return Path(os.path.normpath((folder / path).absolute()))


def _split(spec: str) -> tuple[str, str]:
    source, colon, name = spec.strip().rpartition(":")
    if not colon or not source or not name.isidentifier():
        raise UserError(
            f'"{spec}" does not name a function', _FORMS, 'For example "rewards.py:my_reward"'
        )
    return source, name


def _files_of(module: str) -> dict[str, Path]:
    """Return the files that importing a module runs by their dotted names, its own last."""
    files: dict[str, Path] = {}
    search: list[str] | None = None  # None: the top-level module path
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        dotted = ".".join(parts[:count])
        spec = PathFinder.find_spec(dotted, search) if parts[count - 1].isidentifier() else None
        if spec is None or (count < len(parts) and spec.submodule_search_locations is None):
            raise UserError(
                f"{dotted}: this Python ({sys.prefix}) has no such module",
                _FORMS,
                "Install the module there, or give the path of the file",
            )
        locations = spec.submodule_search_locations
        search = None if locations is None else list(locations)
        if isinstance(spec.loader, SourceFileLoader) and spec.origin is not None:
            files[dotted] = Path(spec.origin).absolute()
        elif spec.loader is not None or count == len(parts):
            raise UserError(
                f"{dotted}: this module is not Python source",
                "Expected a module with a source file",
                "Call it from a function in a file of your own",
            )
    return files


def _check_name(function: UserFunction) -> None:
    """Raise UserError if the file is not valid Python or does not define the name."""
    source = read_bytes(function.file)
    try:
        tree = ast.parse(source, str(function.file))
    except (SyntaxError, ValueError) as error:  # ValueError: null bytes, in some versions
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise UserError(
            f"{function.file}{line}: this is not valid Python ({error.args[0]})",
            "",
            "Correct that line",
        ) from error
    if function.name not in _top_level_names(tree):
        raise UserError(
            f'{function.file}: there is no function "{function.name}" in it',
            "Expected a function at the file's top level",
            "Check its name",
        )


def _top_level_names(tree: ast.Module) -> set[str]:
    """Return the names that a file may define at module level, also inside `if` and `try`."""
    names: set[str] = set()
    pending: list[ast.AST] = [*tree.body]
    while pending:
        node = pending.pop()
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
                pending.extend(ast.iter_child_nodes(node))
    return names
