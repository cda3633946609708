"""Whether a run that trains makes no step for much longer than it usually takes."""

from dataclasses import dataclass
from time import time

from onetrainer.messages.formatting import format_moment
from ui.progress.run_state import RunState
from ui.progress.units import format_time

_TIMES, _LEAST_SECONDS = 10.0, 60.0


@dataclass(frozen=True)
class Stall:
    """A run that makes no steps. seconds: Since its last step; usual: That one takes."""

    step: int
    seconds: float
    usual: float

    @property
    def text(self) -> str:
        """What is shown in a line."""
        return f"no step for {format_time(self.seconds)}"

    @property
    def title(self) -> str:
        """Since when, which stays the same while it lasts."""
        return f"No step since {format_moment(time() - self.seconds, '%H:%M')}"

    @property
    def advice(self) -> str:
        """What is usual, and what to look at."""
        usual = format_time(self.usual) if self.usual >= 1 else f"{self.usual:.2g} s"
        return (
            f"A step takes {usual} otherwise; the last was {self.step:,}. The log may say what it "
            "waits for. Usual reasons: the disk or network drive with the images is slow or gone, "
            "another program uses the GPU or the RAM is full, the computer slept, or torch.compile "
            "compiles for another image size, which takes minutes and ends by itself."
        )


def stall_of(state: RunState, seconds: float) -> Stall | None:
    """Return the stall of a running run; None if it is not one.

    seconds: Since its last event. Loading, caching, validating, sampling and saving take their own
    time, and so does the first step, whose usual time is unknown.
    """
    progress, phase = state.progress, state.phase
    if state.status != "running" or progress is None or phase is None:
        return None
    if phase.name != "training" or progress.steps_per_second <= 0:
        return None
    usual = 1 / progress.steps_per_second
    is_stall = seconds > max(_LEAST_SECONDS, _TIMES * usual)
    return Stall(progress.step, seconds, usual) if is_stall else None
