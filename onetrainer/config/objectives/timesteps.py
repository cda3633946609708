"""Settings of the distribution of timesteps."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

Center = Annotated[
    float, Field(ge=0, le=1), Ui("Center", level="advanced", search="noising_bias bias")
]


class Range(Section):
    """Settings shared by all distributions of timesteps: a range of noise levels."""

    lowest: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Min noising strength",
            level="advanced",
            search="min_timestep min_noising_strength range least noise",
        ),
    ] = 0.0
    """No timestep below this fraction is trained: 0 is a clean image, 1 is pure noise; 0.2 means
    from timestep 200 on. The whole distribution is scaled into the range. 0 is usual; more leaves
    out the fine detail."""

    highest: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Max noising strength",
            level="advanced",
            search="max_timestep max_noising_strength range most noise",
        ),
    ] = 1.0
    """No timestep above this fraction is trained. 0.8 means up to timestep 799. 1 is usual; less
    leaves out the composition."""

    shift: Annotated[
        float,
        Field(ge=0.01, le=100),
        Ui("Shift", level="advanced", search="timestep_shift"),
    ] = 1.0
    """Above 1 shifts timesteps toward more noise, below 1 toward less, within the range; 3 moves
    the middle to three quarters. 1 is off. 1 to 3 is usual."""


class Uniform(Range):
    """Every timestep equally often."""

    title: ClassVar[str] = "uniform"
    kind: Literal["uniform"] = "uniform"


class LogitNormal(Range):
    """A hill: the middle often, both ends never. Source: Esser et al. 2024."""

    title: ClassVar[str] = "logit-normal"
    kind: Literal["logit_normal"] = "logit_normal"

    mean: Annotated[
        float, Field(ge=-10, le=10), Ui("Mean", level="advanced", search="noising_bias bias")
    ] = 0.0
    """The position of the hill: 0 is the middle, above 0 more noise, below 0 less. 0 is usual."""

    spread: Annotated[
        float,
        Field(ge=0.05, le=10),
        Ui("Spread", level="advanced", search="noising_weight std deviation"),
    ] = 1.0
    """The width of the hill; above 1.4 it splits into one at each end. 1 is usual; less trains
    mostly the middle."""


class Sigmoid(Range):
    """A ramp: rarely on one side, often on the other."""

    title: ClassVar[str] = "sigmoid"
    kind: Literal["sigmoid"] = "sigmoid"

    slope: Annotated[
        float, Field(ge=-100, le=100), Ui("Slope", level="advanced", search="noising_weight")
    ] = 5.0
    """The steepness of the ramp. Above 0 prefers more noise, below 0 less; 0 is uniform. 5 is
    usual."""

    center: Center = 0.5
    """The fraction of noise in the middle of the ramp. 0.5 is usual; more moves the ramp toward
    noise."""


class Beta(Range):
    """The beta distribution: hills, slopes and valleys of many shapes."""

    title: ClassVar[str] = "beta"
    kind: Literal["beta"] = "beta"

    alpha: Annotated[
        float, Field(ge=0.05, le=20), Ui("Alpha", level="advanced", search="noising_weight")
    ] = 2.0
    """Larger values mean fewer timesteps with little noise; below 1 there is a peak at clean
    images. 2 is usual."""

    beta: Annotated[
        float, Field(ge=0.05, le=20), Ui("Beta", level="advanced", search="noising_bias")
    ] = 2.0
    """Larger values mean fewer timesteps with much noise; below 1 there is a peak at pure noise. 2
    is usual."""


class CosineMap(Range):
    """A gentle hill: the middle twice as often as the ends. Source: Esser et al. 2024."""

    title: ClassVar[str] = "cosine map"
    kind: Literal["cosine_map"] = "cosine_map"


class InvertedParabola(Range):
    """A hill with a rounded top that ends within the range."""

    title: ClassVar[str] = "inverted parabola"
    kind: Literal["inverted_parabola"] = "inverted_parabola"

    curvature: Annotated[
        float, Field(ge=-100, le=100), Ui("Curvature", level="advanced", search="noising_weight")
    ] = 8.0
    """How narrow the hill is: the weight is 2 - curvature × distance², and 0 where that is
    negative. 8 ends at both ends of the range, 0 is uniform, below 0 is a valley. 8 is usual; more
    is narrower."""

    center: Center = 0.5
    """The fraction of noise at the top of the hill. 0.5 is usual; more trains noisier timesteps."""


class HeavyTail(Range):
    """A hill in the middle that leaves some samples for both ends. Source: Esser et al. 2024."""

    title: ClassVar[str] = "heavy tail"
    kind: Literal["heavy_tail"] = "heavy_tail"

    scale: Annotated[
        float, Field(ge=-1, le=1.75), Ui("Scale", level="advanced", search="noising_weight mode")
    ] = 1.29
    """The height of the hill: 0 is uniform, below 0 a valley; 1.29 is usual, more trains the middle
    more."""


Timesteps = Annotated[
    Uniform | LogitNormal | Sigmoid | Beta | CosineMap | InvertedParabola | HeavyTail,
    Field(discriminator="kind"),
]
