"""Settings of broken steps: what happens when a loss or gradient is not a finite number."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

_GOING_BACK = {"training.broken_steps.action": ("go-back",)}


class BrokenSteps(Section):
    """What happens after a broken step: one whose loss or gradient is not a finite number (NaN or
    infinity). It never changes the weights.
    """

    action: Annotated[
        Literal["skip", "go-back", "stop"],
        Ui(
            "After a broken step",
            level="advanced",
            search="nan inf infinity diverged broken skip rollback",
            choices={
                "skip": "skip the step",
                "go-back": "go back to a checkpoint",
                "stop": "stop",
            },
        ),
    ] = "skip"
    """A step whose loss or gradient is NaN or infinite never changes the weights. "skip" warns and
    continues, "go-back" repeats the steps since the last checkpoint with a lower learning rate,
    "stop" ends the run with a checkpoint."""

    max_in_a_row: Annotated[
        int,
        Field(ge=1, le=10_000),
        Ui("Broken steps in a row", unit="steps", level="advanced", search="nan"),
    ] = 10
    """Stops the run after so many broken steps in a row, with the cause and a checkpoint. Single
    ones do no harm; many train nothing. 10 is usual; more waits longer for a run to recover."""

    lr_factor: Annotated[
        float,
        Field(gt=0, le=1),
        Ui(
            "Learning rate factor",
            level="advanced",
            search="lower learning rate reduce nan",
            only_with=_GOING_BACK,
        ),
    ] = 0.5
    """Each time the run goes back, the learning rate is multiplied by this from there on. 0.5 is
    usual. Less is safer and slower."""

    max_returns: Annotated[
        int,
        Field(ge=1, le=100),
        Ui("Go back at most", unit="times", level="advanced", search="nan", only_with=_GOING_BACK),
    ] = 3
    """Stops the run if a step is still broken after it has gone back so often. 3 is usual; more
    tries longer, at a lower and lower rate."""
