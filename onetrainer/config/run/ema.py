"""Settings of the EMA: an exponential moving average of the trained weights."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui


class Ema(Section):
    """An exponential moving average of the trained weights, which is often better than the last
    weights.
    """

    use: Annotated[bool, Ui("Use EMA", search="ema exponential moving average weights")] = False
    """Averages the weights over the run (EMA); samples and the finished file use the average.
    Steadier results, most useful in long runs."""

    decay: Annotated[
        float, Field(gt=0, lt=1), Ui("EMA decay", level="advanced", search="ema decay")
    ] = 0.999
    """The fraction of the average that stays at each step. 0.999 averages about 1,000 steps; closer
    to 1 averages over more steps and reacts later. 0.999 to 0.9999 is usual."""

    ramp: Annotated[bool, Ui("EMA warm-up", level="advanced", search="ema warmup ramp decay")] = (
        True
    )
    """Raises the decay from the start, (1 + step) / (10 + step), so that the average does not hold
    on to the weights from before training. Leave it on in short runs."""

    every: Annotated[
        int, Field(ge=1, le=10_000), Ui("Update EMA every", unit="steps", level="advanced")
    ] = 1
    """Updates the EMA every N steps; the decay is applied for each step in between. 1 is exact,
    more saves a little time. 1 is usual."""

    device: Annotated[
        Literal["device", "host"],
        Ui(
            "EMA device",
            level="advanced",
            search="ema cpu gpu memory keep average",
            choices={"device": "training device", "host": "RAM"},
        ),
    ] = "device"
    """Where the EMA is stored: "device" is where the weights are, "host" is RAM, which saves GPU
    memory and costs a little time."""

    sample_both: Annotated[
        bool, Ui("Sample with and without EMA", level="advanced", search="ema samples non-ema")
    ] = False
    """Generates every sample twice: with the EMA weights and with the weights of the last step.
    Takes twice the time."""
