"""Signals that ask a worker to end, as at log-out, shutdown or preemption: the run is paused."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from socket import socket, socketpair
from time import monotonic
from types import FrameType

from modules.training.inbox import Inbox

# SIGBREAK is what Windows sends when a console is closed, at log-out and at shutdown.
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
# systemd sends SIGHUP together with SIGTERM: both are one request.
_ONE_REQUEST_SECONDS = 1.0


@contextmanager
def pausing_at_signals(inbox: Inbox) -> Iterator[None]:
    """Pause the run at the first signal that asks the process to end; end at once at another.

    The inbox's thread receives them: Python runs the handlers of signals in the main thread alone,
    and not before a library's call returns there.
    """
    # A socket, not a pipe: Windows has no pipes that are read without waiting.
    receiver, sender = socketpair()
    with closing(receiver), closing(sender):
        receiver.setblocking(False)
        sender.setblocking(False)
        former = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
        # nohup ignores SIGHUP for everything that it starts; shells in the background, SIGINT.
        handlers = {
            number: signal.signal(number, _received_elsewhere)
            for number in numbers
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        inbox.listen(_Requests(receiver, inbox, frozenset(handlers)).receive)
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(former)
            inbox.listen(None)


@contextmanager
def ignoring_signals() -> Iterator[None]:
    """Ignore them, in a process that ends when the run's first process does, which obeys them."""
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


class _Requests:
    """Requests to end: the numbers of signals, as `signal.set_wakeup_fd` writes them."""

    def __init__(self, receiver: socket, inbox: Inbox, numbers: frozenset[int]) -> None:
        self._receiver, self._inbox, self._numbers = receiver, inbox, numbers
        self._since: float | None = None

    def receive(self) -> None:
        """Obey the signals since the last call."""
        try:
            received = self._receiver.recv(4096)
        except BlockingIOError:
            return
        for number in self._numbers.intersection(received):
            if self._since is None:
                self._since = monotonic()
                self._inbox.put("pause")
            elif monotonic() - self._since > _ONE_REQUEST_SECONDS:
                os._exit(128 + number)  # as shells report an end by a signal


def _received_elsewhere(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: without a handler in Python the number would not be written."""
