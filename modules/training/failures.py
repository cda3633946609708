"""What may fail beside the steps of a run: it is reported, and the run goes on."""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from onetrainer.errors import EndsRun, UserError
from onetrainer.run.events import Event, Report
from onetrainer.run.failures import is_out_of_memory

SAMPLING = "sampling"
OUTPUT = "writing the output file of the steps so far"
TENSORBOARD = "writing the TensorBoard log"
_MAX_CHARACTERS = 500


@dataclass(frozen=True)
class Failures:
    """Reports the first failure of each kind, and lets the run go on.

    Attributes:
        warn: Reports a warning.
    """

    warn: Callable[[str], None]
    _reported: set[str] = field(default_factory=set)

    @contextmanager
    def tolerated(self, what: str) -> Iterator[None]:
        """Leave out the rest of the block where something in it fails.

        what: What is left out then, as the subject of a sentence.

        Raises:
            EndsRun: Training cannot go on, or starts again to repair what is missing.
        """
        try:
            yield
        except EndsRun:
            raise
        # Whatever it is: a sample, a validation or a log is worth less than the steps made so far.
        except Exception as error:  # noqa: BLE001
            if what in self._reported:
                return
            self._reported.add(what)
            if not isinstance(error, UserError):  # what is not understood goes into the log, too
                traceback.print_exc()
            self.warn(
                f"{what} failed and is left out; training goes on, and does not report this again."
                f" {_reason(error)}"
            )

    def tolerating(self, what: str, take: Report) -> Report:
        """Return a function that takes events like another, and may fail.

        what: As for `tolerated`.
        """

        def tolerant(event: Event) -> None:
            with self.tolerated(what):
                take(event)

        return tolerant


def _reason(error: Exception) -> str:
    if is_out_of_memory(error):
        return "There is not enough memory."
    text = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    return text[:_MAX_CHARACTERS].strip()
