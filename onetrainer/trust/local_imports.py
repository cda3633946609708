"""The files that a user's Python file imports from beside it, found without running anything.

Found are those that `import` statements name, wherever they are in a file. Code can import in other
ways, by computed names or `exec`; the worker refuses files that were not found here.
"""

import ast
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from onetrainer.errors import UserError

MAX_FILES, MAX_BYTES = 200, 4 << 20
"""More cannot be read before it is trusted."""

_INIT = "__init__.py"
_EVERY = "*"


def local_imports(root: Path, name: str, source: bytes, *, is_package: bool) -> dict[str, Path]:
    """Return the files below a folder that a module imports, directly or not, by dotted name.

    Args:
        root: The folder that top-level names are searched in, before all others.
        name: The module's dotted name; "" for a file that is no module.
        source: Its code.
        is_package: Whether it is the `__init__` of a package.

    Raises:
        UserError: These are too many, or cannot be read.
    """
    found: dict[str, Path] = {}
    pending = [(name, source, is_package)]
    size = 0
    while pending:
        for imported in _imported_names(*pending.pop()):
            for dotted, file in _files_of(root, imported):
                if dotted in found or dotted == name:
                    continue
                found[dotted] = file
                content = read_code(file)
                size += len(content)
                if len(found) > MAX_FILES or size > MAX_BYTES:
                    raise UserError(
                        f"{root}: the code imports more than {MAX_FILES} files, or"
                        f" {MAX_BYTES >> 20} MB, from there",
                        "Expected as much code as a person can read before trusting it",
                        "Install what it imports as a package, or move the function to a folder of"
                        " its own",
                    )
                pending.append((dotted, content, file.name == _INIT))
    return dict(sorted(found.items()))


def read_code(path: Path) -> bytes:
    """Return a file's content. Raises UserError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"{path}: cannot be read ({reason})", "", "Check the file") from error


def installed_places(root: Path | None) -> list[str]:
    """Return the entries of the search path that hold installed packages.

    Without the folder of a function, and without the current one, which is "" or relative.
    """
    return [path for path in sys.path if Path(path).is_absolute() and Path(path) != root]


def _imported_names(name: str, source: bytes, is_package: bool) -> Iterator[str]:
    """Yield the dotted names that a module imports, and those that may be modules."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # it cannot run either
    package = name.split(".") if is_package else name.split(".")[:-1]
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.ImportFrom(module=module, names=aliases, level=level):
                above = package[: len(package) - level + 1] if level else []
                base = ".".join([*above, *([module] if module else [])])
                if level > len(package) or not base:
                    continue  # Python refuses it
                yield base
                yield from (f"{base}.{alias.name}" for alias in aliases)


def _files_of(root: Path, dotted: str) -> Iterator[tuple[str, Path]]:
    """Yield what importing a name runs below a folder: its packages, then its own file."""
    top, *_ = parts = dotted.split(".")
    # As in a script, what lies beside it hides what is installed. Python's own modules it never
    # hides, and a folder without an `__init__` hides nothing.
    if top in sys.stdlib_module_names:
        return
    is_plain = not (root / top / _INIT).is_file() and not (root / f"{top}.py").is_file()
    if is_plain and PathFinder.find_spec(top, installed_places(root)):
        return
    folder = root
    for count, part in enumerate(parts, 1):
        name = ".".join(parts[:count])
        if part == _EVERY:  # a package may name any of its modules in `__all__`
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                file = path / _INIT if path.is_dir() else path
                if file.suffix == ".py" and path.name != _INIT and file.is_file():
                    yield f"{name[:-1]}{path.stem}", file
        elif (folder / part / _INIT).is_file():
            yield name, folder / part / _INIT
        elif (folder / f"{part}.py").is_file():
            yield name, folder / f"{part}.py"
            return
        folder /= part
