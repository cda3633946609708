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


class GivenUpError(Exception):
    """Raised within work whose answer nobody waits for any more."""


class Watch:
    """Given to the work, which tells how far it is and asks whether it is still wanted.

    All of it may be used from any thread.
    """

    def __init__(self, tell: Callable[[int, int], None]) -> None:
        self._tell = tell
        self._given_up = threading.Event()
        self._told = 0.0

    def give_up(self) -> None:
        """Lets the work end at its next step."""
        self._given_up.set()

    def is_given_up(self) -> bool:
        """Whether nobody waits for an answer any more."""
        return self._given_up.is_set()

    def require_wanted(self) -> None:
        """Raises GivenUpError where nobody waits for an answer any more."""
        if self.is_given_up():
            raise GivenUpError

    def progress(self, done: int, total: int) -> None:
        """Takes how much is done."""
        now = time.monotonic()
        if now - self._told >= _TELL_EVERY_S or done >= total:
            self._told = now
            self._tell(done, total)


class Inquiry(Generic[Answer]):
    """Asks one question at a time. answer: the newest one; failed: why there is none.

    done, total: how far the work is; 0 of 0 while that is not known. turn: how often anything has
    changed.
    """

    def __init__(
        self,
        draft: Draft,
        jobs: Jobs,
        ask: Callable[[TrainConfig, Watch], Answer],
        *,
        counts: tuple[str, ...],
    ) -> None:
        """counts: the paths of sections and settings that the answer depends on."""
        self._draft = draft
        self._jobs = jobs
        self._ask = ask
        self._counts = counts
        self._watch: Watch | None = None
        self._question: tuple[object, ...] = ()
        self._answered: tuple[object, ...] | None = None
        self._listeners: list[Callable[[], None]] = []
        self.answer: Answer | None = None
        self.failed: UserError | None = None
        self.done = 0
        self.total = 0
        self.turn = 0

    def listen(self, listener: Callable[[], None]) -> None:
        """Has a function called whenever there is news."""
        self._listeners.append(listener)

    @property
    def is_working(self) -> bool:
        """Whether an answer is on its way."""
        return self._watch is not None

    @property
    def is_asked(self) -> bool:
        """Whether the settings of now have been asked about, with or without an answer yet."""
        asked = self._question if self.is_working else self._answered
        return asked == self._now()

    @property
    def is_of_other_settings(self) -> bool:
        """Whether settings that count have changed since the answer."""
        return self.answer is not None and self._answered != self._now()

    def why_not(self) -> str:
        """Why nothing can be asked now; "" if it can."""
        if self._draft.value_errors and self._draft.valid_config() is None:
            return "Put the settings right first."
        return ""

    def start(self) -> None:
        """Asks about the settings as they are now; what is under way is given up."""
        config = self._draft.valid_config()
        self._give_up()
        if config is None:
            return
        self._question = self._now()
        # The threads never touch what the window shows: it is handed over.
        watch = Watch(lambda done, total: self._jobs.post(lambda: self._hear(watch, done, total)))
        self._watch = watch
        self.done = self.total = 0
        self._jobs.run(
            lambda: self._ask(with_absolute_paths(config), watch),
            lambda answer: self._take(watch, answer),
            lambda error: self._fail(watch, error),
        )
        self._tell()

    def stop(self) -> None:
        """Gives the question up; an earlier answer stays."""
        if self._watch is not None:
            self._give_up()
            self._tell()

    def _give_up(self) -> None:
        if self._watch is not None:
            self._watch.give_up()
            self._watch = None

    def _now(self) -> tuple[object, ...]:
        return tuple(self._draft.value(path) for path in self._counts)

    def _hear(self, watch: Watch, done: int, total: int) -> None:
        if watch is self._watch:
            self.done, self.total = done, total
            self._tell()

    def _take(self, watch: Watch, answer: Answer) -> None:
        if watch is not self._watch:
            return
        self._watch = None
        # Of settings that are no more; whoever shows it asks again.
        if self._question == self._now():
            self.answer, self.failed, self._answered = answer, None, self._question
        self._tell()

    def _fail(self, watch: Watch, error: Exception) -> None:
        if watch is not self._watch or isinstance(error, GivenUpError):
            return
        self._watch = None
        is_foreseen = isinstance(error, UserError)
        if self._question == self._now():
            failed = error if isinstance(error, UserError) else _unforeseen(error)
            self.answer, self.failed, self._answered = None, failed, self._question
        self._tell()
        if not is_foreseen:
            raise error  # for the window's log

    def _tell(self) -> None:
        self.turn += 1
        for listener in self._listeners:
            listener()


def _unforeseen(error: Exception) -> UserError:
    """What a person is told where the program itself is at fault."""
    said = " ".join(str(error).split()) or "it does not say why"
    return UserError(
        f"something unforeseen went wrong: {type(error).__name__}, {said}",
        "",
        "It is written in the window's log; what you have set is as it was. Look again.",
    )
