"""Which timesteps training draws, and how often."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

Center = Annotated[
    float, Field(ge=0, le=1), Ui("Center", level="advanced", search="noising_bias bias")
]


class Range(Section):
    """What all distributions of timesteps have in common: they fill a range of noise levels."""

    lowest: Annotated[
        float,
        Field(ge=0, le=1),
        Ui("Least noise", level="advanced", search="min_timestep min_noising_strength range"),
    ] = 0.0
    """No timestep below this share of all is trained: 0 is a clean picture, 1 noise alone. 0.2
    means from timestep 200 on. The whole distribution is squeezed into the range."""

    highest: Annotated[
        float,
        Field(ge=0, le=1),
        Ui("Most noise", level="advanced", search="max_timestep max_noising_strength range"),
    ] = 1.0
    """No timestep above this share of all is trained. 0.8 means up to timestep 799."""

    shift: Annotated[
        float,
        Field(ge=0.01, le=100),
        Ui("Shift", level="advanced", search="timestep_shift"),
    ] = 1.0
    """Above 1 moves the draws towards more noise, below 1 towards less, within the range; 3 takes
    what was in the middle to three quarters. 1 moves nothing."""


class Uniform(Range):
    """Every timestep as often as any other."""

    title: ClassVar[str] = "evenly"
    kind: Literal["uniform"] = "uniform"


class LogitNormal(Range):
    """A hill: the middle often, both ends never (Esser et al. 2024)."""

    title: ClassVar[str] = "logit-normal (a hill)"
    kind: Literal["logit_normal"] = "logit_normal"

    mean: Annotated[
        float, Field(ge=-10, le=10), Ui("Mean", level="advanced", search="noising_bias bias")
    ] = 0.0
    """Where the hill stands: 0 in the middle, above 0 at more noise, below 0 at less."""

    spread: Annotated[
        float,
        Field(ge=0.05, le=10),
        Ui("Spread", level="advanced", search="noising_weight std deviation"),
    ] = 1.0
    """How wide the hill is; above 1.4 it splits into one at each end."""


class Sigmoid(Range):
    """A rise: seldom on one side, often on the other."""

    title: ClassVar[str] = "sigmoid (a rise)"
    kind: Literal["sigmoid"] = "sigmoid"

    slope: Annotated[
        float, Field(ge=-100, le=100), Ui("Slope", level="advanced", search="noising_weight")
    ] = 5.0
    """How steep the rise is. Above 0 prefers noisy timesteps, below 0 clean ones, 0 is even."""

    center: Center = 0.5
    """The share of noise in the middle of the rise."""


class Beta(Range):
    """The beta distribution: hills, slopes and valleys of many forms."""

    title: ClassVar[str] = "beta distribution"
    kind: Literal["beta"] = "beta"

    alpha: Annotated[
        float, Field(ge=0.05, le=20), Ui("Alpha", level="advanced", search="noising_weight")
    ] = 2.0
    """Larger takes draws away from clean pictures; below 1 there is a peak at them."""

    beta: Annotated[
        float, Field(ge=0.05, le=20), Ui("Beta", level="advanced", search="noising_bias")
    ] = 2.0
    """Larger takes draws away from noise alone; below 1 there is a peak at it."""


class CosineMap(Range):
    """A gentle hill: the middle twice as often as the ends (Esser et al. 2024)."""

    title: ClassVar[str] = "cosine map (a gentle hill)"
    kind: Literal["cosine_map"] = "cosine_map"


class InvertedParabola(Range):
    """A hill with a flat top that ends within the range."""

    title: ClassVar[str] = "inverted parabola (a round hill)"
    kind: Literal["inverted_parabola"] = "inverted_parabola"

    curvature: Annotated[
        float, Field(ge=-100, le=100), Ui("Curvature", level="advanced", search="noising_weight")
    ] = 8.0
    """How narrow the hill is: a timestep counts 2 - curvature × distance², and nothing where that
    is below 0. 8 ends at both ends of the range, 0 is even, below 0 makes a valley."""

    center: Center = 0.5
    """The share of noise at the top of the hill."""


class HeavyTail(Range):
    """A hill in the middle that leaves some draws for both ends (Esser et al. 2024)."""

    title: ClassVar[str] = "heavy tail (a hill with feet)"
    kind: Literal["heavy_tail"] = "heavy_tail"

    scale: Annotated[
        float, Field(ge=-1, le=1.75), Ui("Scale", level="advanced", search="noising_weight mode")
    ] = 1.29
    """How high the hill is: 0 is even, below 0 a valley. The paper mostly has 1.29."""


Timesteps = Annotated[
    Uniform | LogitNormal | Sigmoid | Beta | CosineMap | InvertedParabola | HeavyTail,
    Field(discriminator="kind"),
]
