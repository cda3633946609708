"""What reading of damaged files reports, shown in the message bar."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from onetrainer.files import own_json
from ui.background.threads import Jobs


@contextmanager
def showing_notices(jobs: Jobs, show: Callable[[str], None]) -> Iterator[None]:
    """Show within the context what any thread has left out of a file; in a terminal before it."""
    logger, handler = logging.getLogger(own_json.__name__), _Handler(jobs, show)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Handler(logging.Handler):
    def __init__(self, jobs: Jobs, show: Callable[[str], None]) -> None:
        super().__init__()
        self._jobs = jobs
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        self._jobs.post(partial(self._show, record.getMessage()))
