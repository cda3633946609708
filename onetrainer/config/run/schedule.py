"""Settings of the learning rate schedule."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.amount import InSteps, Steps
from onetrainer.config.base.arguments import Arguments
from onetrainer.config.base.section import Section, Ui


class _WarmedUp(Section):
    """A curve that begins with a warm-up."""

    kind: str

    warmup_steps: Annotated[
        Steps, InSteps(0, 1_000_000), Ui("Warm-up", unit="steps", search="warmup")
    ] = 0
    """Raises the learning rate from zero to its full value over this many steps, or "1 epoch". 0 is
    off; 50 to 200 steps are usual."""

    warmup_fraction: Annotated[
        float,
        Field(ge=0, lt=1),
        Ui(
            "Warm-up fraction",
            unit="of the run",
            level="advanced",
            search="warmup ratio percent warm-up share",
        ),
    ] = 0.0
    """The warm-up as a fraction of all steps, in place of a number of steps; 0.05 is a twentieth.
    0.05 is usual; more is gentler at the start."""


class _Falling(_WarmedUp):
    """A curve that falls to a lowest factor."""

    min_factor: Annotated[
        float,
        Field(ge=0, lt=1),
        Ui("Minimum factor", level="advanced", search="min factor lr end lowest share"),
    ] = 0.0
    """The fraction of the full rate at which the curve is lowest. 0 is usual; more keeps training
    toward the end."""


class Constant(_WarmedUp):
    """The same learning rate to the end."""

    title: ClassVar[str] = "constant"
    kind: Literal["constant"] = "constant"


class Linear(_Falling):
    """The learning rate falls linearly."""

    title: ClassVar[str] = "linear"
    kind: Literal["linear"] = "linear"


class Cosine(_Falling):
    """The learning rate falls like a cosine. Source: Loshchilov & Hutter 2016, arXiv:1608.03983."""

    title: ClassVar[str] = "cosine"
    kind: Literal["cosine"] = "cosine"


class CosineRestarts(_Falling):
    """A cosine that restarts at the full rate.

    Source: Loshchilov & Hutter 2016, arXiv:1608.03983.
    """

    title: ClassVar[str] = "cosine with restarts"
    kind: Literal["cosine_restarts"] = "cosine_restarts"

    cycles: Annotated[
        float, Field(gt=0, le=1000), Ui("Cycles", search="num_cycles hard restarts")
    ] = 2.0
    """How many times the rate falls; each time it restarts at its full value. 2 to 4 is usual; more
    restarts more often."""


class CosineWaves(_Falling):
    """A cosine that falls and rises without jumps."""

    title: ClassVar[str] = "cosine waves"
    kind: Literal["cosine_waves"] = "cosine_waves"

    cycles: Annotated[
        float, Field(gt=0, le=1000), Ui("Cycles", search="num_cycles smooth restarts")
    ] = 1.5
    """How many times the rate falls and rises; with a half at the end, as in 1.5, it ends low. 1.5
    is usual; more swings more often."""


class Rex(_Falling):
    """The rate stays high and falls faster and faster.

    Source: Chen et al. 2021, arXiv:2107.04197.
    """

    title: ClassVar[str] = "REX"
    kind: Literal["rex"] = "rex"

    bend: Annotated[float, Field(ge=0, lt=1), Ui("Bend", level="advanced", search="rex beta")] = 0.5
    """How long the rate stays high: 0 is a straight line, 0.5 is usual, 0.9 falls mostly at the
    end; more stays high longer."""


class Polynomial(_Falling):
    """The rate falls with a power of the remaining fraction of the run."""

    title: ClassVar[str] = "polynomial"
    kind: Literal["polynomial"] = "polynomial"

    power: Annotated[float, Field(gt=0, le=100), Ui("Power", search="polynomial exponent")] = 2.0
    """How the rate falls: 1 is a straight line, 2 is usual; more falls early, less falls late."""


class InverseSqrt(_WarmedUp):
    """The rate falls with one over the square root of the steps, slower and slower.

    Source: arXiv:1706.03762.
    """

    title: ClassVar[str] = "inverse square root"
    kind: Literal["inverse_sqrt"] = "inverse_sqrt"

    timescale: Annotated[
        int,
        Field(ge=0, le=10_000_000),
        Ui("Time scale", unit="steps", level="advanced", search="inverse sqrt rsqrt"),
    ] = 0
    """The rate is halved three times as many steps after the warm-up. 0 means as many as the
    warm-up has, or 10,000 without one. 0 is usual; more falls more slowly."""


class Point(Section):
    """One point of a custom curve."""

    at: Annotated[float, Field(ge=0, le=1), Ui("Position", unit="of the run")] = 0.0
    """Its position in the run: 0 is the start, 1 the end. Points are usually in ascending order;
    more is later."""

    factor: Annotated[float, Field(ge=0, le=100), Ui("Factor", search="share rate")] = 1.0
    """What the learning rate is multiplied by there. From 0 to 1 is usual; more is above the full
    rate."""


class Points(Section):
    """A custom curve: points joined by straight lines."""

    title: ClassVar[str] = "custom points"
    kind: Literal["points"] = "points"

    points: Annotated[
        tuple[Point, ...],
        Field(max_length=100),
        Ui("Points", search="custom curve piecewise"),
    ] = ()
    """The points of the curve, in order; before the first and after the last the rate stays
    constant. Two points at one position make a jump; none means the full rate to the end."""


class CustomSchedule(Section):
    """A function of your own, or a scheduler class of torch or another package."""

    title: ClassVar[str] = "custom function"
    kind: Literal["custom"] = "custom"

    function: Annotated[
        str,
        Field(max_length=1000),
        Ui("Function", editor="function", search="lr_scheduler_type dotted python own"),
    ] = ""
    """A function, as "file.py:function" or "package.module.function", that is called with the step,
    from 0, and the steps of the run, and returns what the learning rate is multiplied by; or a
    subclass of torch's LRScheduler. Its code runs only after you have trusted it."""

    arguments: Arguments = ""


Curve = (
    Constant
    | Linear
    | Cosine
    | CosineRestarts
    | CosineWaves
    | Rex
    | Polynomial
    | InverseSqrt
    | Points
)
"""The schedules that are known without running code of the user's own."""

Schedule = Annotated[Curve | CustomSchedule, Field(discriminator="kind")]
