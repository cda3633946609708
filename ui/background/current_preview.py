"""The preview of the draft's data set, shared by all pages that show numbers of its images."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from onetrainer.config.train import TrainConfig
from onetrainer.presets.presets import with_absolute_paths
from ui.background.background_query import BackgroundQuery, CancelToken
from ui.background.dataset_preview import DEPENDS_ON, PreviewData, compute_preview
from ui.background.threads import Jobs
from ui.model.draft import Draft

_QUERY_AFTER_MS = 400

FolderTimes = tuple[tuple[str, int], ...]
"""Folders, and when a file was last added, removed or renamed in each, in ns."""


class CurrentPreview:
    """Preview that is computed again after each change of settings, once somebody wants it.

    after: Calls a function on the window's thread after some milliseconds.
    """

    def __init__(
        self, draft: Draft, jobs: Jobs, after: Callable[[int, Callable[[], None]], object]
    ) -> None:
        self.query: BackgroundQuery[PreviewData] = BackgroundQuery(
            draft, jobs, self._compute, depends_on=DEPENDS_ON
        )
        self._draft, self._jobs, self._after = draft, jobs, after
        self._is_pending = False
        self._folders: FolderTimes = ()
        jobs.on_close.append(self._close)

    def get(self) -> PreviewData | None:
        """Return the preview of the current settings; None while it is not known."""
        query = self.query
        if not (query.is_requested or self._is_pending or query.blocked_reason()):
            self._is_pending = True
            self._after(0 if query.answer is None else _QUERY_AFTER_MS, self._start)
        return None if query.is_outdated else query.answer

    def look_again(self, changed: Callable[[], None]) -> None:
        """Take the preview as outdated if files came, went or were renamed in the image folders.

        changed: Called then; a page that is just being shown does not hear of it otherwise.
        """
        query, config = self.query, self._draft.valid_config()
        if config is None or not query.is_requested:
            return

        def compare(folders: FolderTimes) -> None:
            if folders != self._folders:
                query.forget()
                changed()

        # Folders that cannot be read are reported where they are set.
        self._jobs.run(lambda: folder_times(config), compare, lambda _error: None)

    def _compute(self, config: TrainConfig, token: CancelToken[PreviewData]) -> PreviewData:
        self._folders = folder_times(config)
        return compute_preview(config, token)

    def _start(self) -> None:
        if self._is_pending and not self.query.is_requested:
            self.query.start()
        self._is_pending = False

    def _close(self) -> None:
        self._is_pending = False


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
