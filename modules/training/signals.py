"""Signals that ask a worker to end, as at log-out, shutdown or preemption: the run is paused."""

import signal
from collections.abc import Callable
from time import monotonic
from types import FrameType

from modules.training.inbox import Inbox

# SIGBREAK is what Windows sends when a console is closed, at log-out and at shutdown.
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
# systemd sends SIGHUP together with SIGTERM: both are one request.
_ONE_REQUEST_SECONDS = 1.0


def pause_at_signals(inbox: Inbox) -> None:
    """Pause the run at the first signal that asks the process to end; end at once at another."""
    handle = _handler(inbox)
    for name in _NAMES:
        number = getattr(signal, name, None)
        # nohup ignores SIGHUP for everything that it starts; shells in the background, SIGINT.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)


def _handler(inbox: Inbox) -> Callable[[int, FrameType | None], None]:
    since: list[float] = []

    def received(number: int, _frame: FrameType | None) -> None:
        if not since:
            since.append(monotonic())
            inbox.put("pause")
        elif monotonic() - since[0] > _ONE_REQUEST_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    return received
