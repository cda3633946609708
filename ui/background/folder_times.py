"""When files were last added, removed or renamed in the image folders of a config."""

import os
from collections.abc import Iterator
from pathlib import Path

from onetrainer.config.train import TrainConfig
from onetrainer.presets.presets import with_absolute_paths

FolderTimes = tuple[tuple[str, int], ...]
"""Folders, and when a file was last added, removed or renamed in each, in ns."""


def folder_times(config: TrainConfig) -> FolderTimes:
    """Return the times of a config's image folders, with those below; slow for many images."""
    # Imported late to keep the start of the window fast.
    from onetrainer.concepts.concepts import concepts_of

    folders = {concept.folder for concept in concepts_of(with_absolute_paths(config))}
    return tuple(sorted(found for folder in folders for found in _times_below(folder)))


def _times_below(folder: Path) -> Iterator[tuple[str, int]]:
    for path, _folders, _files in os.walk(folder, followlinks=False):
        try:
            yield path, Path(path).stat().st_mtime_ns
        except OSError:  # it went meanwhile
            yield path, 0
