"""A running average of the trained weights."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui


class Ema(Section):
    """An exponential moving average of the trained weights, which is often better than the last."""

    use: Annotated[bool, Ui("Average the weights", search="ema exponential moving average")] = False
    """Keeps an average of the weights over the run, which the finished file then holds."""

    decay: Annotated[
        float, Field(gt=0, lt=1), Ui("EMA decay", level="advanced", search="ema decay")
    ] = 0.999
    """How much of the average is kept at each step; 0.999 looks back over about 1,000 steps."""

    ramp: Annotated[bool, Ui("Ramp the decay", level="advanced", search="ema warmup")] = True
    """Lets the decay rise from the start, (1 + step) / (10 + step), so that the average does not
    hold on to what the weights were before training."""

    every: Annotated[
        int, Field(ge=1, le=10_000), Ui("EMA every", unit="steps", level="advanced")
    ] = 1
    """Takes the weights into the average after every so many steps; the decay counts for each of
    the steps between."""

    device: Annotated[
        Literal["device", "host"],
        Ui(
            "Keep the average",
            level="advanced",
            search="ema cpu gpu memory",
            choices={"device": "on the device", "host": "in main memory"},
        ),
    ] = "device"
    """Where the average is kept: "device" is where the weights are, "host" saves video memory."""

    sample_both: Annotated[
        bool, Ui("Sample with and without", level="advanced", search="ema samples non-ema")
    ] = False
    """Draws every sample twice: with the averaged weights and with those of the last step."""
