"""Resolution of a user-defined function, "file.py:function" or "module:function", to its files.

Nothing is run or imported here; the worker does that for trusted files.
"""

import ast
import os
import site
import sys
import sysconfig
from dataclasses import dataclass
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.trust.local_imports import local_imports, read_code

FILE_SUFFIX = ".py"
_FORMS = 'Expected "file.py:function" or "module:function"'


@dataclass(frozen=True)
class UserFunction:
    """The place of a function, and the code that importing it runs.

    files: Parent packages, then local files that are imported, its own file last. contents: Theirs.
    modules: Their dotted names; "" for its own if the spec names a file. imports: How many of them
    are imported. root: The folder that local files are imported from; None for an installed
    package, which imports what it likes.
    """

    name: str
    files: tuple[Path, ...]
    contents: tuple[bytes, ...]
    modules: tuple[str, ...]
    imports: int = 0
    root: Path | None = None

    @property
    def file(self) -> Path:
        """The absolute path of the function's own file."""
        return self.files[-1]


def find_function(spec: str) -> UserFunction:
    """Return the location and code of a function, without importing anything.

    spec: "file.py:function", "module:function" or "module.function", or a class in place of the
        function. A module is searched as Python does.

    Raises:
        UserError: The spec is invalid, the file or function does not exist or cannot be read.
    """
    dot = "." if ":" not in spec and not spec.endswith(FILE_SUFFIX) else ":"
    source, colon, name = spec.strip().rpartition(dot)
    if not colon or not source or not name.isidentifier():
        raise UserError(
            f'"{spec}" does not name a function', _FORMS, 'For example "rewards.py:my_reward"'
        )
    root: Path | None
    if source.endswith(FILE_SUFFIX):
        file = _absolute(source, Path.cwd())
        if not file.is_file():
            raise UserError(f"{file}: there is no such file", _FORMS, "Check the path")
        parents, own, root = {}, "", file.parent
    else:
        parents, own = _files_of(source), source
        file = parents.pop(source)
        root = _local_root(source, file)
    content = read_code(file)
    _check_name(file, content, name)
    imports: dict[str, Path] = {}
    if root is not None:
        imports = local_imports(root, own, content, is_package=file.name == "__init__.py")
        for parent, path in parents.items():
            imports |= local_imports(root, parent, read_code(path), is_package=True)
        imports = {key: path for key, path in imports.items() if key not in {*parents, own}}
    files = {**parents, **imports}
    contents = *map(read_code, files.values()), content
    return UserFunction(name, (*files.values(), file), contents, (*files, own), len(imports), root)


def absolute_spec(spec: str, folder: Path) -> str:
    """Return the spec with an absolute file path; others are returned unchanged."""
    source, colon, name = spec.rpartition(":")
    if not colon or not source.endswith(FILE_SUFFIX):
        return spec
    return f"{_absolute(source, folder)}:{name}"


def _absolute(text: str, folder: Path) -> Path:
    """Return the normalized path of a file, by which trust is stored."""
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:
        what = f"{text}: there is no such user on this computer"
        raise UserError(what, _FORMS, "Correct it") from error
    return Path(os.path.normpath((folder / path).absolute()))


def _local_root(module: str, file: Path) -> Path | None:
    """Return the folder that a module was found in; None for that of installed packages."""
    is_package = file.name == "__init__.py"
    root = file.parents[module.count(".") + is_package]
    paths = sysconfig.get_paths()
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    installed = {*(Path(paths[name]) for name in names), Path(site.getusersitepackages())}
    return None if installed & {root, *root.parents} else root


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


def _check_name(file: Path, source: bytes, name: str) -> None:
    """Raise UserError if the source is not valid Python or does not define the name."""
    try:
        tree = ast.parse(source, str(file))
    except (SyntaxError, ValueError) as error:  # ValueError: null bytes, in some versions
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise UserError(
            f"{file}{line}: this is not valid Python ({error.args[0]})", "", "Correct that line"
        ) from error
    if name not in _top_level_names(tree):
        raise UserError(
            f'{file}: there is no function "{name}" in it',
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
