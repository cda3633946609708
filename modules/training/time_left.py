"""How long a run will take to its end: its steps, and what it does between and after them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass
class TaskTimes:
    """How often a task between steps, such as saving, is still due, and how long it takes.

    Attributes:
        left: Returns how often it is still due before a step is reported.
        guess: How many steps take as long as one time, until one was measured.
    """

    left: Callable[[int], int]
    guess: float = 0.0
    count: int = 0
    seconds: float = 0.0

    def seconds_each(self, of_a_step: float) -> float:
        """Return how long it takes each time. of_a_step: Seconds of a step."""
        return self.seconds / self.count if self.count else self.guess * of_a_step


def seconds_left(step: int, steps: int, speed: float, tasks: Sequence[TaskTimes]) -> float:
    """Return the seconds from a step to the end of the run; -1 if they are not known.

    At least one second, unless nothing is left but what was neither measured nor guessed. speed:
    Steps a second; 0 if it was not measured yet. tasks: All that the run does between steps.
    """
    if not speed:
        return -1.0
    others = sum(each.left(step) * each.seconds_each(1 / speed) for each in tasks)
    return max(1.0, (steps - step) / speed + others) if others or step < steps else -1.0
