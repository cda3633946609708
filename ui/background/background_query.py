"""Slow queries about the draft, answered in threads one at a time."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.presets.presets import with_absolute_paths
from ui.background.threads import Jobs
from ui.model.draft import Draft

Answer = TypeVar("Answer")
_REPORT_INTERVAL_S = 0.1


class QueryCancelledError(Exception):
    """Raised inside work whose answer is no longer needed."""


class CancelToken:
    """Reports progress of the work and signals it to stop; safe to use from any thread."""

    def __init__(self, report: Callable[[int, int], None]) -> None:
        """Create a token.

        Args:
            report: Called with the done and total amounts of work.
        """
        self._report = report
        self._cancelled = threading.Event()
        self._reported_at = 0.0

    def cancel(self) -> None:
        """Ask the work to stop at its next check."""
        self._cancelled.set()

    def is_cancelled(self) -> bool:
        """Return whether the answer is no longer needed."""
        return self._cancelled.is_set()

    def raise_if_cancelled(self) -> None:
        """Raise QueryCancelledError if the answer is no longer needed."""
        if self.is_cancelled():
            raise QueryCancelledError

    def progress(self, done: int, total: int) -> None:
        """Report the amount of work done."""
        now = time.monotonic()
        if now - self._reported_at >= _REPORT_INTERVAL_S or done >= total:
            self._reported_at = now
            self._report(done, total)


class BackgroundQuery(Generic[Answer]):
    """Runs one query at a time.

    Attributes:
        answer: The newest answer.
        failed: Why there is no answer.
        done: Amount of finished work.
        total: Total amount of work; 0 while unknown.
        revision: Number of changes so far.
    """

    def __init__(
        self,
        draft: Draft,
        jobs: Jobs,
        ask: Callable[[TrainConfig, CancelToken], Answer],
        *,
        depends_on: tuple[str, ...],
    ) -> None:
        """Create a query.

        Args:
            draft: The settings that the query is about.
            jobs: Runs the work.
            ask: Computes the answer in a thread.
            depends_on: Paths of sections and settings that the answer depends on.
        """
        self._draft = draft
        self._jobs = jobs
        self._ask = ask
        self._depends_on = depends_on
        self._token: CancelToken | None = None
        self._inputs: tuple[object, ...] = ()
        self._answer_inputs: tuple[object, ...] | None = None
        self._listeners: list[Callable[[], None]] = []
        self.answer: Answer | None = None
        self.failed: UserError | None = None
        self.done = 0
        self.total = 0
        self.revision = 0

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
        asked = self._inputs if self.is_working else self._answer_inputs
        return asked == self._current_inputs()

    @property
    def is_outdated(self) -> bool:
        """Whether the settings have changed since the answer."""
        return self.answer is not None and self._answer_inputs != self._current_inputs()

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
        token = CancelToken(
            lambda done, total: self._jobs.post(lambda: self._report_progress(token, done, total))
        )
        self._token = token
        self.done = self.total = 0
        self._jobs.run(
            lambda: self._ask(with_absolute_paths(config), token),
            lambda answer: self._take(token, answer),
            lambda error: self._fail(token, error),
        )
        self._notify()

    def stop(self) -> None:
        """Cancel the query; an earlier answer stays."""
        if self._token is not None:
            self._cancel()
            self._notify()

    def _cancel(self) -> None:
        if self._token is not None:
            self._token.cancel()
            self._token = None

    def _current_inputs(self) -> tuple[object, ...]:
        return tuple(self._draft.value(path) for path in self._depends_on)

    def _report_progress(self, token: CancelToken, done: int, total: int) -> None:
        if token is self._token:
            self.done, self.total = done, total
            self._notify()

    def _take(self, token: CancelToken, answer: Answer) -> None:
        if token is not self._token:
            return
        self._token = None
        # An answer for outdated settings is dropped; the page starts another query.
        if self._inputs == self._current_inputs():
            self.answer, self.failed, self._answer_inputs = answer, None, self._inputs
        self._notify()

    def _fail(self, token: CancelToken, error: Exception) -> None:
        if token is not self._token or isinstance(error, QueryCancelledError):
            return
        self._token = None
        if self._inputs == self._current_inputs():
            failed = error if isinstance(error, UserError) else _unexpected_error(error)
            self.answer, self.failed, self._answer_inputs = None, failed, self._inputs
        self._notify()
        if not isinstance(error, UserError):
            raise error  # for the window's log

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
