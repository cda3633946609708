"""Timer that delivers news of threads and of the run to the window, a bounded amount per tick."""

import tkinter as tk
from collections.abc import Callable

from ui.background.collection import collect_due
from ui.background.session import Session
from ui.background.threads import Jobs

TICK_MS = 50
_BUSY_TICK_MS = 10
_TICKS_PER_SECOND = 20


class Pump:
    """Calls `on_news` after the session has read news, at most once per tick."""

    def __init__(
        self, root: tk.Tk, jobs: Jobs, session: Session, on_news: Callable[[], None]
    ) -> None:
        self._root = root
        self._jobs = jobs
        self._session = session
        self._on_news = on_news
        self._id = ""
        self.ticks = 0

    def start(self) -> None:
        """Start the timer."""
        self._schedule(TICK_MS)

    def stop(self) -> None:
        """Stop the timer."""
        if self._id:
            self._root.after_cancel(self._id)
            self._id = ""

    def _schedule(self, delay: int) -> None:
        self._id = self._root.after(delay, self._tick)

    def _tick(self) -> None:
        self.ticks += 1
        # First: neither an exception nor a dialog that waits in here for its answer stops it.
        self._schedule(TICK_MS)
        delay = TICK_MS
        try:
            self._jobs.deliver()
            has_news = self._session.poll()
            # What depends on time only, such as a silent worker, is updated once a second.
            if has_news or (self._session.has_worker and self.ticks % _TICKS_PER_SECOND == 0):
                self._on_news()
            if has_news:
                delay = _BUSY_TICK_MS
            collect_due()
        finally:
            if self._id:  # not stopped meanwhile
                self._root.after_cancel(self._id)
                self._schedule(delay)
