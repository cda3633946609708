"""Base models in folders, by their headers."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.families.registry import FAMILY_LABELS
from onetrainer.images.header import file_stamp
from onetrainer.model_files.inspection import inspect_model

_SUFFIXES = (".safetensors", ".ckpt")
_INDEX = "model_index.json"
# Where ComfyUI, and A1111 and its relatives, keep base models.
_OF_PROGRAMS = ("models/checkpoints", "models/Stable-diffusion", "models/StableDiffusion")
_MOST_ENTRIES, _DEEPEST = 50_000, 4


@dataclass(frozen=True)
class FoundModel:
    """A base model that can be trained.

    Attributes:
        family: "" for a name on the Hub that is not on this computer.
        size: In bytes.
    """

    path: Path
    family: str
    precision: str
    size: int


class ModelFinder:
    """Finds base models, and remembers what the headers of unchanged files have said."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, ...], FoundModel | None]] = {}

    def find(self, folder: Path) -> Iterator[FoundModel]:
        """Yield the base models in a folder, or in the folder of a program that has some."""
        for path in model_paths(folder):
            if found := self.look_at(path):
                yield found

    def look_at(self, path: Path) -> FoundModel | None:
        """Return what a file or folder is; None if it is no base model that can be trained."""
        stamp = file_stamp(path / _INDEX if path.is_dir() else path)
        before, found = self._known.get(path, ((), None))
        if not stamp or stamp != before:
            found = _found(path)
            self._known[path] = stamp, found
        return found


def model_paths(folder: Path) -> Iterator[Path]:
    """Yield the files and diffusers folders in a folder that may be base models, by name."""
    inner = [folder / name for name in _OF_PROGRAMS]
    entries = 0
    seen: set[str] = set()
    for root in [one for one in inner if one.is_dir()] or [folder]:
        for place, folders, files in os.walk(root, followlinks=True):
            real = os.path.realpath(place)
            depth = len(Path(place).relative_to(root).parts)
            entries += len(folders) + len(files)
            if real in seen or entries > _MOST_ENTRIES:
                folders.clear()
                continue
            seen.add(real)
            if _INDEX in files:
                folders.clear()
                yield Path(place)
                continue
            folders[:] = sorted(one for one in folders if one[0] != "." and depth < _DEEPEST)
            names = (name for name in sorted(files) if name.lower().endswith(_SUFFIXES))
            yield from (Path(place, name) for name in names)


def size_on_disk(path: Path) -> int:
    """Return the bytes of a file, or of the files in a model's folder."""
    if not path.is_dir():
        return path.stat().st_size
    files = (Path(place, name) for place, _, names in os.walk(path) for name in names)
    return sum(_size(file) for file in files)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # a link to nothing
        return 0


def _found(path: Path) -> FoundModel | None:
    try:
        model = inspect_model(path)
        if model.kind not in FAMILY_LABELS or model.missing or model.has_unusual_size:
            return None
        return FoundModel(path, model.kind, model.precision, size_on_disk(path))
    except (UserError, OSError):
        return None
