"""The preview of the draft's data set, shared by all pages that show numbers of its images."""

from collections.abc import Callable

from ui.background.apart import apart
from ui.background.background_query import BackgroundQuery
from ui.background.dataset_preview import DEPENDS_ON, PreviewData, compute_preview
from ui.background.folder_times import FolderWatch
from ui.background.threads import Jobs
from ui.model.draft import Draft

_QUERY_AFTER_MS = 400


class CurrentPreview:
    """Preview that is computed again after each change of settings, once somebody wants it.

    after: Calls a function on the window's thread after some milliseconds.
    """

    def __init__(
        self, draft: Draft, jobs: Jobs, after: Callable[[int, Callable[[], None]], object]
    ) -> None:
        self._watch = FolderWatch(jobs)
        self.query: BackgroundQuery[PreviewData] = BackgroundQuery(
            draft, jobs, self._watch.noting(apart(compute_preview)), depends_on=DEPENDS_ON
        )
        self._draft, self._after = draft, after
        self._is_pending = False
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

        def forget() -> None:
            query.forget()
            changed()

        self._watch.compare(config, forget)

    def _start(self) -> None:
        if self._is_pending and not self.query.is_requested:
            self.query.start()
        self._is_pending = False

    def _close(self) -> None:
        self._is_pending = False
