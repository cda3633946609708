"""How the learning rate changes over a run."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

WarmupSteps = Annotated[
    int, Field(ge=0, le=1_000_000), Ui("Warm-up", unit="steps", search="warmup")
]
WarmupShare = Annotated[
    float,
    Field(ge=0, lt=1),
    Ui("Warm-up share", unit="of the run", level="advanced", search="warmup ratio percent"),
]
MinFactor = Annotated[
    float, Field(ge=0, lt=1), Ui("Lowest share", level="advanced", search="min factor lr end")
]


class Constant(Section):
    """The same learning rate to the end."""

    title: ClassVar[str] = "constant"
    kind: Literal["constant"] = "constant"

    warmup_steps: WarmupSteps = 0
    """Over so many steps the rate rises in a line from zero to its full value."""

    warmup_fraction: WarmupShare = 0.0
    """The warm-up as a share of all steps, in place of a number of them; 0.05 is a twentieth."""


class Linear(Section):
    """The learning rate falls in a line."""

    title: ClassVar[str] = "linear"
    kind: Literal["linear"] = "linear"

    warmup_steps: WarmupSteps = 0
    """Over so many steps the rate rises in a line from zero to its full value."""

    warmup_fraction: WarmupShare = 0.0
    """The warm-up as a share of all steps, in place of a number of them; 0.05 is a twentieth."""

    min_factor: MinFactor = 0.0
    """The share of the full rate at which the curve is lowest."""


class Cosine(Section):
    """The learning rate falls like a cosine (Loshchilov & Hutter 2016, arXiv:1608.03983)."""

    title: ClassVar[str] = "cosine"
    kind: Literal["cosine"] = "cosine"

    warmup_steps: WarmupSteps = 0
    """Over so many steps the rate rises in a line from zero to its full value."""

    warmup_fraction: WarmupShare = 0.0
    """The warm-up as a share of all steps, in place of a number of them; 0.05 is a twentieth."""

    min_factor: MinFactor = 0.0
    """The share of the full rate at which the curve is lowest."""


class CosineRestarts(Section):
    """A cosine that jumps back to the full rate (Loshchilov & Hutter 2016, arXiv:1608.03983)."""

    title: ClassVar[str] = "cosine with restarts"
    kind: Literal["cosine_restarts"] = "cosine_restarts"

    warmup_steps: WarmupSteps = 0
    """Over so many steps the rate rises in a line from zero to its full value."""

    warmup_fraction: WarmupShare = 0.0
    """The warm-up as a share of all steps, in place of a number of them; 0.05 is a twentieth."""

    min_factor: MinFactor = 0.0
    """The share of the full rate at which the curve is lowest."""

    cycles: Annotated[
        float, Field(gt=0, le=1000), Ui("Cycles", search="num_cycles hard restarts")
    ] = 2.0
    """How many times the rate falls; it starts anew at its full value after each."""


class CosineWaves(Section):
    """A cosine that goes down and up again without a jump."""

    title: ClassVar[str] = "cosine in waves"
    kind: Literal["cosine_waves"] = "cosine_waves"

    warmup_steps: WarmupSteps = 0
    """Over so many steps the rate rises in a line from zero to its full value."""

    warmup_fraction: WarmupShare = 0.0
    """The warm-up as a share of all steps, in place of a number of them; 0.05 is a twentieth."""

    min_factor: MinFactor = 0.0
    """The share of the full rate at which the curve is lowest."""

    cycles: Annotated[
        float, Field(gt=0, le=1000), Ui("Cycles", search="num_cycles smooth restarts")
    ] = 1.5
    """How many times the rate goes down and up again; with a half at the end, as in 1.5, it ends
    low."""


class Rex(Section):
    """The rate stays high and falls ever faster (Chen et al. 2021, arXiv:2107.04197)."""

    title: ClassVar[str] = "REX"
    kind: Literal["rex"] = "rex"

    warmup_steps: WarmupSteps = 0
    """Over so many steps the rate rises in a line from zero to its full value."""

    warmup_fraction: WarmupShare = 0.0
    """The warm-up as a share of all steps, in place of a number of them; 0.05 is a twentieth."""

    min_factor: MinFactor = 0.0
    """The share of the full rate at which the curve is lowest."""

    bend: Annotated[float, Field(ge=0, lt=1), Ui("Bend", level="advanced", search="rex beta")] = 0.5
    """How long the rate stays high: 0 is a straight line, 0.5 the paper's curve, 0.9 falls mostly
    at the end."""


class Polynomial(Section):
    """The rate falls by a power of what is left of the run."""

    title: ClassVar[str] = "polynomial"
    kind: Literal["polynomial"] = "polynomial"

    warmup_steps: WarmupSteps = 0
    """Over so many steps the rate rises in a line from zero to its full value."""

    warmup_fraction: WarmupShare = 0.0
    """The warm-up as a share of all steps, in place of a number of them; 0.05 is a twentieth."""

    min_factor: MinFactor = 0.0
    """The share of the full rate at which the curve is lowest."""

    power: Annotated[float, Field(gt=0, le=100), Ui("Power", search="polynomial exponent")] = 2.0
    """1 is a straight line; more falls early, less falls late."""


class InverseSqrt(Section):
    """The rate falls like one over the root of the steps, ever slower (arXiv:1706.03762)."""

    title: ClassVar[str] = "inverse square root"
    kind: Literal["inverse_sqrt"] = "inverse_sqrt"

    warmup_steps: WarmupSteps = 0
    """Over so many steps the rate rises in a line from zero to its full value."""

    warmup_fraction: WarmupShare = 0.0
    """The warm-up as a share of all steps, in place of a number of them; 0.05 is a twentieth."""

    timescale: Annotated[
        int,
        Field(ge=0, le=10_000_000),
        Ui("Time scale", unit="steps", level="advanced", search="inverse sqrt rsqrt"),
    ] = 0
    """Three times as many steps after the warm-up the rate is a half. 0 means as many as the
    warm-up has, or 10,000 without one."""


class Point(Section):
    """One point of a curve of one's own."""

    at: Annotated[float, Field(ge=0, le=1), Ui("At", unit="of the run")] = 0.0
    """Where it is: 0 is the beginning of the run, 1 its end."""

    factor: Annotated[float, Field(ge=0, le=100), Ui("Share of the rate")] = 1.0
    """What the learning rate is multiplied by there."""


class Points(Section):
    """A curve of one's own: points joined by straight lines."""

    title: ClassVar[str] = "a curve of points"
    kind: Literal["points"] = "points"

    points: Annotated[
        tuple[Point, ...],
        Field(max_length=100),
        Ui("Points", search="custom curve piecewise"),
    ] = ()
    """Where the rate is how high, in their order; before the first and after the last it stays as
    it is there. Two points at one place make a jump; none means the full rate to the end."""


Schedule = Annotated[
    Constant
    | Linear
    | Cosine
    | CosineRestarts
    | CosineWaves
    | Rex
    | Polynomial
    | InverseSqrt
    | Points,
    Field(discriminator="kind"),
]
