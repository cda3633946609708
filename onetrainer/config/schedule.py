"""How the learning rate changes over a run."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base import Section, Ui

ScheduleKind = Literal["constant", "linear", "cosine"]


class Schedule(Section):
    """The learning rate over the steps of a run, as a share of the optimizer's."""

    kind: Annotated[ScheduleKind, Ui("Learning rate schedule", search="scheduler decay")] = (
        "constant"
    )
    """After warm-up the rate stays constant, falls in a line to zero, or falls like a cosine."""

    warmup_steps: Annotated[int, Field(ge=0, le=1_000_000), Ui("Warm-up", unit="steps")] = 0
    """Over so many steps the rate rises in a line from zero to its full value."""
