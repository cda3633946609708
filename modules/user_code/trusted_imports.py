"""Imports of a user's function: the files that were trusted, installed packages, nothing else."""

import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import (
    BuiltinImporter,
    FrozenImporter,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
)
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from onetrainer.trust.function_file import UserFunction
from onetrainer.trust.local_imports import installed_places

_STDLIB = Path(sysconfig.get_path("stdlib"))
_STDLIB_FOLDERS = (_STDLIB, _STDLIB / "lib-dynload", Path(sys.base_exec_prefix, "DLLs"))
"""Folders of Python's own modules; those that are compiled have their own on each system."""


class TrustedImports:
    """Finds the modules of a function, before other finders do, and refuses other local files.

    While it is installed, local modules are in `sys.modules` under their plain names, and hide what
    has the same name elsewhere.

    Args:
        function: What was trusted. Its code is imported from its bytes, never from the disk.
    """

    def __init__(self, function: UserFunction) -> None:
        code = zip(function.files, function.contents, strict=True)
        self._contents = {
            name: found for name, found in zip(function.modules, code, strict=True) if name
        }
        self._root = function.root
        # Code may change the search path; what it finds there was not shown.
        self._search = installed_places(function.root)
        is_local = function.root is not None
        self._tops = {name.partition(".")[0] for name in self._contents if is_local}
        self._modules: dict[str, ModuleType] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of one of the function's modules; None for what others may find.

        Raises:
            ImportError: It is a local file that was not trusted.
        """
        del target
        if name in self._contents:
            file, content = self._contents[name]
            return spec_from_file_location(name, file, loader=_BytesLoader(name, file, content))
        if self._root is None:
            return None
        if any(known.startswith(f"{name}.") for known in self._contents):
            folder = ModuleSpec(name, None, is_package=True)  # without an `__init__`
            folder.submodule_search_locations = []
            return folder
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names:
            if (own := _stdlib_spec(name)) is not None:
                return own
        elif top not in self._tops:
            if path is not None:
                return None  # in an installed package
            if (installed := PathFinder.find_spec(name, self._search)) is not None:
                return installed
        found = PathFinder.find_spec(name, path if path else [*sys.path, str(self._root)])
        if found is None:
            return None
        raise ImportError(
            f"{found.origin or name} was not shown when you trusted this code, which may import"
            " from beside it only by plain import statements",
            name=name,
        )

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Install this as the first finder."""
        others = self._take_modules()
        sys.modules.update(self._modules)
        sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)
            self._modules = self._take_modules()
            sys.modules.update(others)

    def _take_modules(self) -> dict[str, ModuleType]:
        """Remove modules of local names from the loaded ones, and return them."""
        names = [name for name in sys.modules if name.partition(".")[0] in self._tops]
        return {name: sys.modules.pop(name) for name in names}


def _stdlib_spec(name: str) -> ModuleSpec | None:
    """Return the spec of one of Python's own modules, whatever the search path holds."""
    own = BuiltinImporter.find_spec(name) or FrozenImporter.find_spec(name)
    if own is not None:
        return own
    above = name.split(".")[:-1]
    return PathFinder.find_spec(name, [str(folder.joinpath(*above)) for folder in _STDLIB_FOLDERS])


class _BytesLoader(SourceFileLoader):
    """Loads a module from bytes, never from its file or its compiled cache."""

    def __init__(self, name: str, path: Path, content: bytes) -> None:
        super().__init__(name, str(path))
        self._content = content

    def get_code(self, fullname: str) -> CodeType:
        del fullname
        return self.source_to_code(self._content, self.path)
