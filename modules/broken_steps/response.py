"""What a run does after broken steps: skip them, go back to a checkpoint, or stop."""

import logging
from collections.abc import Callable, Container
from dataclasses import replace

from modules.broken_steps.cause import Investigator, StepFacts
from modules.broken_steps.retries import Retries, Retry
from onetrainer.config.run.broken_steps import BrokenSteps as Section
from onetrainer.errors import EndsRun, UserError
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import BrokenStep
from onetrainer.run.run_folder import RunFolder

logger = logging.getLogger(__name__)
_OWN_CAUSES = ("loss", "gradient")
"""Causes that a lower learning rate or other noise may remove."""


class Diverged(EndsRun):
    """Broken steps end the run. The weights are those before them, and can be saved."""

    failure = "diverged"


class NothingTrained(Diverged):
    """The model's file ends the run before any step of this start has trained.

    Nothing is to be saved: with a repaired file the run goes on from where it started.
    """

    failure = "model file"


class WentBack(Exception):
    """The run is to start again from its newest checkpoint; the retry is on record."""


class BrokenSteps:
    """Reports broken steps, and decides what follows.

    The decision depends on the number of the step and the newest checkpoint. Steps are judged
    before a checkpoint after them is written, so it is the same if the run is killed and resumed.
    """

    def __init__(
        self,
        section: Section,
        investigator: Investigator,
        *,
        folder: RunFolder,
        retries: Retries,
        events: EventWriter,
        past: Container[int],
        first_step: int,
        finish_saving: Callable[[], None],
    ) -> None:
        """Set up the decisions of a run.

        past: Broken steps before this start of the run. first_step: Steps made before it.
        finish_saving: Waits until the newest checkpoint is complete.
        """
        self._section = section
        self._investigator = investigator
        self._folder = folder
        self._retries = retries
        self._events = events
        self._past = past
        self._first_step = first_step
        self._finish_saving = finish_saving
        self._broken: set[int] = set()

    def report(self, facts: StepFacts) -> None:
        """Report a broken step, and continue, go back or stop.

        Raises:
            Diverged: The run is to end.
            WentBack: The run is to start again.
        """
        event, problem = self._investigator.investigate(facts)
        self._events.write(event)
        logger.warning("%s", event)
        self._decide(event, problem)

    def _decide(self, event: BrokenStep, problem: UserError) -> None:
        self._broken.add(event.step)
        section, retries = self._section, self._retries
        in_a_row = self._in_a_row(event.step)
        if event.cause in ("model", "weights") or section.action == "stop":
            is_first = event.step == self._first_step + 1
            kind = NothingTrained if event.cause == "model" and is_first else Diverged
            failure = "model file" if event.cause == "model" else ""
            raise kind(problem.what, problem.expected, problem.remedy, failure=failure)
        goes_back = section.action == "go-back" and event.cause in _OWN_CAUSES
        # A step that is broken with other noise and a lower rate, too, is skipped.
        if goes_back and not retries.has_repeated(event.step):
            if len(retries.entries) >= section.max_returns:
                times = "once" if section.max_returns == 1 else f"{section.max_returns} times"
                raise _ended(problem, f"the run has gone back {times}, and a step is broken again")
            self._go_back(event)
        if in_a_row >= section.max_in_a_row:
            steps = f"{in_a_row} steps in a row are" if in_a_row > 1 else "a step is"
            raise _ended(problem, f"{steps} broken")

    def _go_back(self, event: BrokenStep) -> None:
        self._finish_saving()
        checkpoints = self._folder.complete_checkpoints()
        since = checkpoints[-1][0] if checkpoints else 0
        kept = replace(event, went_back=True)
        retry = Retry(event.step, since, self._section.lr_factor, kept)
        self._retries.with_entry(retry, self._folder.retries)
        raise WentBack

    def _in_a_row(self, step: int) -> int:
        """Return how many steps up to this one are broken."""
        first = step
        while first - 1 in self._broken or first - 1 in self._past:
            first -= 1
        return step - first + 1


def _ended(problem: UserError, why: str) -> Diverged:
    return Diverged(f"{why}; {problem.what}", problem.expected, problem.remedy)
