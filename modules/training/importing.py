"""Importing of the engine, which takes seconds, as fast as can be."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType


@contextmanager
def importing() -> Iterator[None]:
    """Import faster: without garbage collection, and without a scan of all of transformers' models.

    Afterwards the imported modules are excluded from collection: they stay until the end.
    """
    gc.disable()
    _skip_scan_of_models()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()


def _skip_scan_of_models() -> None:
    """Put a plain package in the place of `transformers.models`, unless that is loaded.

    Its own `__init__` parses the 3,300 files of all models, as that of transformers has just done,
    to offer their classes under its own name, too: a second of each start (transformers 5.23).
    Nothing asks for a class there; modules are imported by their paths, as always.
    """
    name = "transformers.models"
    found = find_spec("transformers")
    if name in sys.modules or found is None or not found.submodule_search_locations:
        return
    package = ModuleType(name, "The models of transformers, each imported when it is named.")
    package.__path__ = [str(Path(found.submodule_search_locations[0]) / "models")]
    sys.modules[name] = package
