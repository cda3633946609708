"""How a worker died, found out beside the window: the system's journal takes up to a second."""

import threading

from onetrainer.run.client import Run, WorkerExit


class WorkerExitSearch:
    """The answer of `Run.unexpected_exit`, once `is_done`; ask when all events were read.

    Attributes:
        run: The run whose worker is gone.
        found: How it died; None if its last event was an ending.
    """

    def __init__(self, run: Run) -> None:
        """Begin to look for it in a thread."""
        self.run = run
        self.found: WorkerExit | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._find, daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether it is known; raises here, once, what went wrong there."""
        if self._thread.is_alive():
            return False
        if (error := self._error) is not None:
            self._error = None
            raise error
        return True

    def _find(self) -> None:
        try:
            self.found = self.run.unexpected_exit()
        except Exception as error:  # noqa: BLE001 - raised in `is_done`
            self._error = error
