"""Slow queries about the draft, answered in threads one at a time."""

import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.presets.presets import with_absolute_paths
from ui.background.threads import Jobs
from ui.model.draft import Draft

Answer = TypeVar("Answer")
_REPORT_INTERVAL_S = 0.1


class QueryCancelledError(Exception):
    """Raised inside work whose answer is no longer needed."""


class Stoppable(Protocol):
    """Something that a query has started, such as a process."""

    def stop(self) -> None:
        """Ask it to stop."""


Started = TypeVar("Started", bound=Stoppable)


class CancelToken(Generic[Answer]):
    """Reports progress of the work and signals it to stop; safe to use from any thread.

    Args:
        report: Called with the done and total amounts of work, and what is being done.
        answer: Called with an answer that is already known before the work ends.
    """

    def __init__(
        self,
        report: Callable[[int, int, str], None],
        answer: Callable[[Answer], None] = lambda _: None,
    ) -> None:
        self._report = report
        self.answer = answer
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._started: Stoppable | None = None
        self._reported_at = 0.0

    def cancel(self) -> None:
        """Ask the work to stop at its next check, and stop what it has started."""
        self._cancelled.set()
        with self._lock:
            if self._started is not None:
                self._started.stop()

    def is_cancelled(self) -> bool:
        """Return whether the answer is no longer needed."""
        return self._cancelled.is_set()

    def raise_if_cancelled(self) -> None:
        """Raise QueryCancelledError if the answer is no longer needed."""
        if self.is_cancelled():
            raise QueryCancelledError

    def start(self, begin: Callable[[], Started]) -> Started:
        """Start something; `cancel` waits until it is started, and stops it."""
        with self._lock:
            self.raise_if_cancelled()
            self._started = started = begin()
        return started

    def progress(self, done: int, total: int, activity: str = "") -> None:
        """Report the amount of work done, and what is being done."""
        now = time.monotonic()
        if now - self._reported_at >= _REPORT_INTERVAL_S or done >= total:
            self._reported_at = now
            self._report(done, total, activity)


Ask = Callable[[TrainConfig, CancelToken[Answer]], Answer]
"""Answers a question about a config in a thread."""


class BackgroundQuery(Generic[Answer]):
    """Runs one query at a time.

    Attributes:
        answer: The newest answer.
        inputs_of_answer: The values that it depends on, by path.
        failed: Why the newest query has no answer.
        done: Amount of finished work.
        total: Total amount of work; 0 while unknown.
        activity: What the query is doing.
        revision: Number of changes so far.
    """

    def __init__(
        self,
        draft: Draft,
        jobs: Jobs,
        ask: Ask[Answer],
        *,
        depends_on: tuple[str, ...],
        keeps_answer: bool = False,
    ) -> None:
        """Create a query.

        Args:
            draft: The settings that the query is about.
            jobs: Runs the work, and stops it when it is closed.
            ask: Computes the answer in a thread.
            depends_on: Paths of sections and settings that the answer depends on.
            keeps_answer: Whether an answer outlives the failure of a later query.
        """
        self._draft = draft
        self._jobs = jobs
        self._ask = ask
        self._depends_on = depends_on
        self._keeps_answer = keeps_answer
        self._token: CancelToken[Answer] | None = None
        self._inputs: dict[str, object] = {}
        self._listeners: list[Callable[[], None]] = []
        self.answer: Answer | None = None
        self.inputs_of_answer: dict[str, object] = {}
        self.failed: UserError | None = None
        self.done = self.total = 0
        self.activity = ""
        self.revision = 0
        jobs.on_close.append(self.stop)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call a function after each change."""
        self._listeners.append(listener)

    @property
    def is_working(self) -> bool:
        """Whether a query is running."""
        return self._token is not None

    @property
    def is_requested(self) -> bool:
        """Whether the current settings were queried, with or without an answer yet."""
        return self._inputs == self._current_inputs()

    @property
    def is_outdated(self) -> bool:
        """Whether the settings have changed since the answer."""
        return self.answer is not None and self.inputs_of_answer != self._current_inputs()

    def blocked_reason(self) -> str:
        """Return why no query can be started now; "" if one can."""
        if self._draft.value_errors and self._draft.valid_config() is None:
            return "Fix the invalid settings first."
        return ""

    def start(self) -> None:
        """Start a query about the current settings; cancels a running one."""
        config = self._draft.valid_config()
        self._cancel()
        if config is None:
            return
        self._inputs = self._current_inputs()

        # Threads never call listeners; results are handed over to the Tk thread.
        token: CancelToken[Answer] = CancelToken(
            lambda *report: self._jobs.post(lambda: self._hear(token, self._show, *report)),
            lambda answer: self._jobs.post(lambda: self._hear(token, self._take, answer)),
        )
        self._token, self.failed = token, None
        self._show(0, 0, "")
        self._jobs.run(
            lambda: self._ask(with_absolute_paths(config), token),
            lambda answer: self._hear(token, self._take, answer, is_end=True),
            lambda error: self._hear(token, self._fail, error, is_end=True),
        )
        self._notify()

    def forget(self) -> None:
        """Take the answer as outdated: what it was made of has changed, other than the settings."""
        self._cancel()
        self._inputs, self.inputs_of_answer = {}, {}
        self._notify()

    def stop(self) -> None:
        """Cancel the query; an earlier answer stays."""
        if self._token is not None:
            self._cancel()
            self._inputs = self.inputs_of_answer
            self._notify()

    def _cancel(self) -> None:
        if self._token is not None:
            self._token.cancel()
            self._token = None

    def _current_inputs(self) -> dict[str, object]:
        return {path: self._draft.value(path) for path in self._depends_on}

    def _hear(
        self,
        token: CancelToken[Answer],
        take: Callable[..., None],
        *news: object,
        is_end: bool = False,
    ) -> None:
        """Take news of the work, unless it was canceled."""
        if token is self._token:
            self._token = None if is_end else token
            take(*news)
            self._notify()
            for defect in news:
                if isinstance(defect, Exception) and not isinstance(defect, UserError):
                    raise defect  # for the window's log

    def _show(self, done: int, total: int, activity: str) -> None:
        self.done, self.total, self.activity = done, total, activity

    def _take(self, answer: Answer) -> None:
        self.answer, self.inputs_of_answer = answer, self._inputs

    def _fail(self, error: Exception) -> None:
        if not self._keeps_answer:
            self.answer = None
        self.failed = error if isinstance(error, UserError) else _unexpected_error(error)

    def _notify(self) -> None:
        self.revision += 1
        for listener in self._listeners:
            listener()


def _unexpected_error(error: Exception) -> UserError:
    """Return the message for a defect of the program."""
    reason = " ".join(str(error).split()) or "no reason given"
    return UserError(
        f"unexpected error: {type(error).__name__}, {reason}",
        "",
        "Details are in the window's log. Your settings are unchanged. Try again.",
    )
