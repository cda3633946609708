"""What goes on in a window: its ticks, and threads that work for it."""

import math
import time
from collections.abc import Callable
from typing import Any

from ui.background.image_cache import ImageCache
from ui.background.pump import Pump
from ui.background.threads import Jobs


class Timing:
    """How late the ticks of a window come at most, and how much time they compute."""

    def __init__(self, pump: Pump) -> None:
        self._schedule, self._tick = pump._schedule, pump._tick
        pump._schedule, pump._tick = self.schedule, self.tick
        self._due = math.inf
        self.forget()

    def forget(self) -> dict[str, object]:
        self.gap_ms = self.tick_ms = 0.0
        return {}

    def schedule(self, delay: int) -> None:
        self._due = time.monotonic() + delay / 1000
        self._schedule(delay)

    def tick(self) -> None:
        self.gap_ms = max(self.gap_ms, (time.monotonic() - self._due) * 1000)
        began = time.thread_time()
        try:
            self._tick()
        finally:
            self.tick_ms = max(self.tick_ms, (time.thread_time() - began) * 1000)


class Work:
    """What threads do for a window, and what they have found until it is taken in."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs, self._make = jobs, jobs._body
        self._begun: dict[Callable[[], None], str] = {}
        jobs._body = self._body

    def _body(self, work: Callable[[], object], *then: Any) -> Callable[[], None]:
        body = self._make(work, *then)

        def watched() -> None:
            try:
                body()
            finally:
                del self._begun[watched]

        self._begun[watched] = str(work)
        return watched

    def going_on(self, images: ImageCache) -> list[str]:
        results = self._jobs._results.qsize()
        return [*self._begun.values(), *map(str, images._waiting), *["a result"] * results]
