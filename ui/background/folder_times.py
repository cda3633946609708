"""Whether files were added, removed or renamed in the image folders of a config."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from onetrainer.config.train import TrainConfig
from onetrainer.presets.presets import with_absolute_paths
from ui.background.background_query import Answer, Ask, CancelToken
from ui.background.threads import Jobs

_ENTRIES_A_REST, _REST_S = 2000, 0.005  # some 3 ms of Python
FolderTimes = dict[str, int]
"""When a file was last added, removed or renamed in each folder, in ns."""


class FolderWatch:
    """The image folders as they were when something was read from them."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._times: FolderTimes = {}

    def noting(self, ask: Ask[Answer]) -> Ask[Answer]:
        """Return a function that answers as `ask`, and notes how the folders are before."""

        def ask_and_note(config: TrainConfig, token: CancelToken[Answer]) -> Answer:
            self._times = folder_times(config)
            return ask(config, token)

        return ask_and_note

    def compare(self, config: TrainConfig, changed: Callable[[], None]) -> None:
        """Look at the folders in a thread; call a function if files came, went or were renamed."""

        def take(times: FolderTimes) -> None:
            if times != self._times:
                changed()

        # Folders that cannot be read are reported where they are set.
        self._jobs.run(lambda: folder_times(config), take, lambda _error: None)

    def note_own(self, written: Iterable[Path]) -> None:
        """Note the folders of files that were written by the window itself; for a thread."""
        folders = {os.path.realpath(path.parent) for path in written}
        own = [path for path in self._times if os.path.realpath(path) in folders]
        self._times = {**self._times, **{path: _time(path) for path in own}}


def folder_times(config: TrainConfig) -> FolderTimes:
    """Return the times of a config's image folders, with those below; slow for many images."""
    # Imported late to keep the start of the window fast.
    from onetrainer.concepts.concepts import concepts_of

    folders = {concept.folder for concept in concepts_of(with_absolute_paths(config))}
    return {path: _time(path) for folder in folders for path in _with_inner(str(folder))}


def _with_inner(folder: str) -> Iterator[str]:
    """Yield a folder and those below it; rests again and again, for the window's thread."""
    waiting, seen = [folder], 0
    while waiting:
        path = waiting.pop()
        yield path
        with suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                seen += 1
                if seen % _ENTRIES_A_REST == 0:
                    time.sleep(_REST_S)


def _time(path: str) -> int:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:  # it went meanwhile
        return 0
