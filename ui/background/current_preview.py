"""The preview of the draft's data set, shared by all pages that show numbers of its images."""

from collections.abc import Callable

from onetrainer.config.train import TrainConfig
from ui.background.apart import apart
from ui.background.background_query import BackgroundQuery, CancelToken
from ui.background.dataset_preview import DEPENDS_ON, PreviewData, compute_preview
from ui.background.folder_times import FolderTimes, folder_times
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
        self.query: BackgroundQuery[PreviewData] = BackgroundQuery(
            draft, jobs, self._compute, depends_on=DEPENDS_ON
        )
        self._draft, self._jobs, self._after = draft, jobs, after
        self._ask = apart(compute_preview)
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
        return self._ask(config, token)

    def _start(self) -> None:
        if self._is_pending and not self.query.is_requested:
            self.query.start()
        self._is_pending = False

    def _close(self) -> None:
        self._is_pending = False
