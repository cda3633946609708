"""What a file dialog lists of a folder, and what it says about an entry."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from onetrainer.concepts.folder_listing import IMAGE_SUFFIXES, is_image
from onetrainer.errors import UserError

MODEL_SUFFIXES = frozenset([".safetensors", ".ckpt", ".pt", ".pth", ".bin"])


@dataclass(frozen=True)
class FolderEntry:
    """A file or folder as a dialog lists it."""

    path: Path
    is_folder: bool
    size: int = 0


@dataclass(frozen=True)
class EntryFacts:
    """What is known about an entry: lines of text, and an image to show, if any."""

    lines: tuple[str, ...]
    image: Path | None = None


def list_entries(folder: Path, patterns: Iterable[str] | None) -> list[FolderEntry]:
    """List a folder: folders first, by name, without hidden ones; takes a while for a large one.

    Args:
        folder: The folder.
        patterns: Names of files that are listed; None for folders alone.

    Raises:
        OSError: If it cannot be read.
    """
    wanted = None if patterns is None else [pattern.lower() for pattern in patterns]
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name.lower()
            if name.startswith("."):
                continue
            try:
                if entry.is_dir():
                    found.append(FolderEntry(Path(entry.path), is_folder=True))
                elif wanted is not None and any(fnmatch(name, one) for one in wanted):
                    size = entry.stat().st_size
                    found.append(FolderEntry(Path(entry.path), is_folder=False, size=size))
            except OSError:
                continue  # a link to nothing
    found.sort(key=lambda entry: (not entry.is_folder, entry.path.name.lower()))
    return found


def describe_entry(path: Path) -> EntryFacts:
    """Say what a folder holds, what kind of model a file is, or show an image."""
    try:
        if path.is_dir():
            return _folder_facts(path)
        if path.suffix.lower() in IMAGE_SUFFIXES:
            return EntryFacts((), path)
        if path.suffix.lower() in MODEL_SUFFIXES:
            return EntryFacts(tuple(_model_lines(path)))
    except (OSError, UserError) as error:
        return EntryFacts((error.what if isinstance(error, UserError) else str(error.strerror),))
    return EntryFacts(())


def _folder_facts(folder: Path) -> EntryFacts:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    if "model_index.json" in names:
        return EntryFacts(tuple(_model_lines(folder)))
    images = [name for name in names if is_image(name)]
    if not images:
        return EntryFacts(("No images",))
    count = "1 image" if len(images) == 1 else f"{len(images):,} images"
    return EntryFacts((count,), folder / images[0])


def _model_lines(path: Path) -> list[str]:
    # Imported when a model is described: its readers would slow the start of the window.
    from onetrainer.model_files.inspection import inspect_model
    from onetrainer.model_files.kinds import DESCRIPTIONS, NAMES

    model = inspect_model(path)
    kind = DESCRIPTIONS[model.kind]
    lines = [kind[:1].upper() + kind[1:]]
    if model.made_for is not None and model.made_for in NAMES:
        lines.append(f"Made for {NAMES[model.made_for]}")
    if model.precision:
        lines.append(f"Precision: {model.precision}")
    return lines
