"""Questions about the draft that take a while, one at a time, answered in threads. No Tk."""

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
_TELL_EVERY_S = 0.1


class QueryCancelledError(Exception):
    """Raised within work whose answer nobody waits for any more."""


class CancelToken:
    """Given to the work, which tells how far it is and asks whether it is still wanted.

    All of it may be used from any thread.
    """

    def __init__(self, tell: Callable[[int, int], None]) -> None:
        self._notify = tell
        self._cancelled = threading.Event()
        self._reported_at = 0.0

    def cancel(self) -> None:
        """Lets the work end at its next step."""
        self._cancelled.set()

    def is_cancelled(self) -> bool:
        """Whether nobody waits for an answer any more."""
        return self._cancelled.is_set()

    def raise_if_cancelled(self) -> None:
        """Raises GivenUpError where nobody waits for an answer any more."""
        if self.is_cancelled():
            raise QueryCancelledError

    def progress(self, done: int, total: int) -> None:
        """Takes how much is done."""
        now = time.monotonic()
        if now - self._reported_at >= _TELL_EVERY_S or done >= total:
            self._reported_at = now
            self._notify(done, total)


class BackgroundQuery(Generic[Answer]):
    """Asks one question at a time. answer: the newest one; failed: why there is none.

    done, total: how far the work is; 0 of 0 while that is not known. turn: how often anything has
    changed.
    """

    def __init__(
        self,
        draft: Draft,
        jobs: Jobs,
        ask: Callable[[TrainConfig, CancelToken], Answer],
        *,
        depends_on: tuple[str, ...],
    ) -> None:
        """counts: the paths of sections and settings that the answer depends on."""
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
        """Has a function called whenever there is news."""
        self._listeners.append(listener)

    @property
    def is_working(self) -> bool:
        """Whether an answer is on its way."""
        return self._token is not None

    @property
    def is_requested(self) -> bool:
        """Whether the settings of now have been asked about, with or without an answer yet."""
        asked = self._inputs if self.is_working else self._answer_inputs
        return asked == self._current_inputs()

    @property
    def is_outdated(self) -> bool:
        """Whether settings that count have changed since the answer."""
        return self.answer is not None and self._answer_inputs != self._current_inputs()

    def blocked_reason(self) -> str:
        """Why nothing can be asked now; "" if it can."""
        if self._draft.value_errors and self._draft.valid_config() is None:
            return "Put the settings right first."
        return ""

    def start(self) -> None:
        """Asks about the settings as they are now; what is under way is given up."""
        config = self._draft.valid_config()
        self._cancel()
        if config is None:
            return
        self._inputs = self._current_inputs()
        # The threads never touch what the window shows: it is handed over.
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
        """Gives the question up; an earlier answer stays."""
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
        # Of settings that are no more; whoever shows it asks again.
        if self._inputs == self._current_inputs():
            self.answer, self.failed, self._answer_inputs = answer, None, self._inputs
        self._notify()

    def _fail(self, token: CancelToken, error: Exception) -> None:
        if token is not self._token or isinstance(error, QueryCancelledError):
            return
        self._token = None
        is_foreseen = isinstance(error, UserError)
        if self._inputs == self._current_inputs():
            failed = error if isinstance(error, UserError) else _unexpected_error(error)
            self.answer, self.failed, self._answer_inputs = None, failed, self._inputs
        self._notify()
        if not is_foreseen:
            raise error  # for the window's log

    def _notify(self) -> None:
        self.revision += 1
        for listener in self._listeners:
            listener()


def _unexpected_error(error: Exception) -> UserError:
    """What a person is told where the program itself is at fault."""
    said = " ".join(str(error).split()) or "it does not say why"
    return UserError(
        f"something unforeseen went wrong: {type(error).__name__}, {said}",
        "",
        "It is written in the window's log; what you have set is as it was. Look again.",
    )
